#!/bin/sh
# One command of the control plane as the systemd units run it, by their user and with their environment:
#   /opt/switchyard/deploy/manage.sh backup /var/backups/switchyard/now.backup
# Run it as root. A variable that is set already wins over the file, whose values need quotes where they hold spaces.
set -eu
user=${RUN_AS:-switchyard}
given=$(export -p)
set -a
. "${ENV_FILE:-/etc/switchyard/control-plane.env}"
set +a
eval "$given"
cd "$(dirname "$0")/.."
if [ "$(id -un)" != "$user" ]; then
    exec runuser -u "$user" -- .venv/bin/python manage.py "$@"
fi
exec .venv/bin/python manage.py "$@"
