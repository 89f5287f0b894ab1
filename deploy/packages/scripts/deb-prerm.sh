#!/bin/sh
# Before the files go away: stops the service. An upgrade restarts it afterwards.
set -e
if [ "$1" = remove ] && command -v systemctl >/dev/null; then
  systemctl --quiet disable glowplug.service || true
  if [ -d /run/systemd/system ]; then
    systemctl stop glowplug.service
  fi
fi
