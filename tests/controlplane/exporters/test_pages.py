"""What is read of exporters' pages, and what it means."""

import pytest

from controlplane.exporters import pages, trouble
from controlplane.exporters.pages import MIB, NoFigures
from controlplane.exporters.readings import DeviceReading

DCGM = """# HELP DCGM_FI_DEV_FB_USED Framebuffer memory used (in MiB).
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100",Hostname="n"} 61440
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",device="nvidia1"} 10
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",device="nvidia0"} 20000
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-a",device="nvidia0"} 480
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",device="nvidia0"} 97
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",device="nvidia0"} 71
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",device="nvidia0"} 642.5
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a",device="nvidia0",err_code="79"} 79
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="0",UUID="GPU-a",device="nvidia0"} 69
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-a",device="nvidia0"} 1
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb"} 999
DCGM_FI_DEV_MEMORY_TEMP{gpu="0"} NaN
"""
NODE = """node_cpu_seconds_total{cpu="0",mode="idle"} 1
node_cpu_seconds_total{cpu="0",mode="user"} 1
node_cpu_seconds_total{cpu="1",mode="idle"} 1
node_load1 3.5
node_memory_MemAvailable_bytes 4.0e+09
node_memory_MemTotal_bytes 1.6e+10
"""


def test_devices_and_host_are_read_of_one_page_or_two() -> None:
    (first, second), host = pages.read(DCGM + NODE)
    assert first == DeviceReading(
        device="gpu0",
        uuid="GPU-a",
        used_bytes=61440 * MIB,
        memory_bytes=81920 * MIB,
        utilization_percent=97.0,
        temperature_c=71.0,
        power_w=642.5,
        xid=79,
        ecc_errors=1,
        throttled=["power cap", "heat (hardware)"],
    )
    assert (second.device, second.used_bytes, second.memory_bytes) == ("gpu1", 10 * MIB, None)
    assert host is not None
    assert (host.memory_bytes, host.available_bytes, host.load_1, host.processors) == (
        16 * 10**9,
        4 * 10**9,
        3.5,
        2,
    )
    assert pages.read(NODE)[0] == []


@pytest.mark.parametrize(
    "page", ["", "<html>", "up 1\n", "DCGM_FI_DEV_FB_USED{gpu=", 'DCGM_FI_DEV_FB_USED{gpu="x"} 1', NODE[:60]]
)
def test_a_page_of_something_else_says_nothing(page: str) -> None:
    with pytest.raises(NoFigures):
        pages.read(page)


@pytest.mark.parametrize(
    "line",
    [
        'DCGM_FI_DEV_FB_USED{gpu="1"} 1e305',
        'DCGM_FI_DEV_XID_ERRORS{gpu="1"} 1e300',
        'DCGM_FI_DEV_FB_USED{gpu="1"} 9223372036854775792',
        f'DCGM_FI_DEV_FB_USED{{gpu="{"9" * 5000}"}} 10',
        'DCGM_FI_DEV_FB_USED{gpu="²"} 10',
        f"DCGM_FI_DEV_FB_USED{{{'a' * 3_000_000}}} 10",
    ],
    ids=["infinite", "huge", "blank", "long number", "no digit", "long line"],
)
def test_an_absurd_sample_is_left_out_and_the_others_are_read(line: str) -> None:
    (device,), _ = pages.read(f'{line}\nDCGM_FI_DEV_FB_USED{{gpu="0"}} 10\n')
    assert device == DeviceReading(device="gpu0", used_bytes=10 * MIB)


def test_what_is_wrong_with_a_device_is_said_in_words() -> None:
    (first, second), _ = pages.read(DCGM)
    assert trouble.of_device(first) == (
        "XID 79: fell off the bus; 1 uncorrectable memory error; slowed down: power cap, heat (hardware)"
    )
    assert trouble.is_defect(first)
    assert (trouble.of_device(second), trouble.is_defect(second)) == ("", False)
    application = DeviceReading(device="gpu0", xid=31)
    assert trouble.of_device(application) == "XID 31: see the driver's log"
    assert not trouble.is_defect(application)


@pytest.mark.parametrize(
    ("used_gib", "registered_gib", "held_gib", "leased_gib", "words"),
    [
        (60, 80, 55, 4, ""),
        (75, 80, 40, 10, "uses 75 GiB, of which 50 GiB are declared"),
        (20, 80, 40, 0, "uses 20 GiB, and replicas say that they hold 40 GiB"),
        (20, 96, 20, 0, "has 80 GiB, 96 GiB are registered"),
        (0, 80, 0, 0, ""),
    ],
)
def test_measured_and_declared_memory_are_compared(
    used_gib: int, registered_gib: int, held_gib: int, leased_gib: int, words: str
) -> None:
    reading = DeviceReading(device="gpu0", used_bytes=used_gib * 2**30, memory_bytes=80 * 2**30)
    said = trouble.of_memory(
        reading,
        memory_bytes=registered_gib * 2**30,
        held_bytes=held_gib * 2**30,
        leased_bytes=leased_gib * 2**30,
    )
    assert said.startswith(words)
    assert bool(said) == bool(words)
