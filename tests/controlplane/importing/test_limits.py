"""``switchyard import`` of what has no end, is too large, or says too much in few words."""

import os

import pytest

from controlplane.importing.nginx_file import MAX_BYTES, MAX_DEPTH, MAX_FILES

USED = "upstream m { server 10.0.0.1:80; } server { location / { proxy_pass http://m; } }\n"

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("kind", ["nginx", "litellm"])
def test_only_regular_files_are_read(run, tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a pipe"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        result = run(kind, path)
        cure = "and only regular files are read: save what it holds as a file"
        assert (result.status, result.told) == (1, f"{path}: is {what}, {cure}\n")


@pytest.mark.parametrize(("kind", "limit"), [("nginx", "4 MiB"), ("litellm", "8 MiB")])
def test_a_large_file_is_refused_before_it_is_read(run, tmp_path, kind, limit):
    file = tmp_path / "large"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    result = run(kind, file)
    assert result.status == 1
    assert f"more than {limit}, the most that is read: " in result.told
    assert len(result.told.splitlines()) == 1


def test_included_files_have_one_limit_together(nginx, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.conf").write_text("#" * (MAX_BYTES // 2) + "\n")
    result = nginx("include a.conf;\ninclude b.conf;\n" + USED)
    assert result.status == 1
    assert "nginx.conf: all files together have more than 4 MiB, the most that is read" in result.told


def test_included_files_are_limited_in_number(nginx, tmp_path):
    for number in range(MAX_FILES):
        (tmp_path / f"{number}.inc").touch()
    result = nginx("include *.inc;\n" + USED)
    assert result.status == 1
    assert f"more than {MAX_FILES} files are included, the most that is read" in result.told
    (tmp_path / "0.inc").unlink()
    assert nginx("include *.inc;\n" + USED).status == 0


def test_what_has_no_end_is_not_included(nginx, tmp_path):
    os.mkfifo(tmp_path / "pipe.inc")
    (tmp_path / "zero.inc").symlink_to("/dev/zero")
    result = nginx("include *.inc;\ninclude pipe.inc;\n" + USED)
    assert (result.status, len(result.fleets)) == (0, 1)
    assert "line 2: include " in result.told
    assert result.told.count("the file cannot be read: is a pipe, and only regular files") == 2
    assert result.told.count("the file cannot be read: is a device") == 1


def test_includes_that_double_each_time_are_refused(nginx, tmp_path):
    for number in range(25):
        (tmp_path / f"{number}.inc").write_text(f"include {number + 1}.inc;\n" * 2)
    (tmp_path / "25.inc").touch()
    result = nginx("include 0.inc;\n" + USED)
    assert result.status == 1
    assert "there are more than 200000 directives, the most that is read" in result.told


@pytest.mark.parametrize("depth", [MAX_DEPTH + 10, 900, 960, 1000, 100_000])
def test_blocks_are_limited_in_depth(nginx, depth):
    result = nginx("http {\n" * depth + "}" * depth)
    assert result.status == 1
    assert "is not an nginx configuration: blocks are nested too deeply" in result.told


def test_includes_are_limited_in_depth(nginx, tmp_path):
    for number in range(500):
        (tmp_path / f"{number}.inc").write_text(f"include {number + 1}.inc;\n")
    (tmp_path / "500.inc").touch()
    result = nginx("include 0.inc;\n" + USED)
    assert result.status == 1
    assert "blocks are nested too deeply" in result.told


def test_hosts_and_paths_are_limited_in_their_product(nginx):
    hosts = " ".join(f"h{number}.test" for number in range(1000))
    paths = "".join(f"location /p{number} {{ proxy_pass http://m; }}\n" for number in range(1000))
    result = nginx(f"upstream m {{ server 10.0.0.1:80; }} server {{ server_name {hosts}; {paths} }}")
    assert result.status == 1
    assert "has more than 20000 pairs of a host and a path: import the servers one by one" in result.told


def test_numbers_of_thousands_of_digits_are_out_of_range(nginx):
    number = "9" * 5000
    more = f"weight={number} max_conns={number} fail_timeout={number} max_fails={number} slow_start={number}"
    result = nginx(f"upstream m {{ server 10.0.0.1:80 {more}; }} " + USED.partition("} ")[2])
    assert result.status == 0
    assert "the number is out of range" in result.told


def test_nested_yaml_is_refused(litellm):
    for text in ("model_list: " + "[" * 100_000, '{"model_list":' + "[" * 100_000 + "]" * 100_000 + "}"):
        result = litellm(text)
        assert result.status == 1
        assert "values are nested more than 32 deep" in result.told


def test_thousands_of_replicas_at_one_address_have_names(litellm):
    one = '  - {model_name: m, litellm_params: {model: openai/m, api_base: "http://10.0.0.1:80/v1"}}\n'
    result = litellm("model_list:\n" + one * 3000)
    names = [replica.name for replica in result.fleets["m"].replicas]
    assert len(set(names)) == 3000
    assert names[2999] == f"{names[0]}-3000"
