#!/bin/sh
# After the files are gone. remove keeps the data and the settings; purge removes both. The user
# stays, as others of the system do: files elsewhere may belong to it.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ "$1" = purge ]; then
  rm -rf /var/lib/glowplug /var/lib/private/glowplug /var/log/glowplug
  if [ -d /etc/glowplug ] && ! rmdir /etc/glowplug 2>/dev/null; then
    echo "glowplug: kept in /etc/glowplug what the package did not bring, which may be keys: $(ls -m /etc/glowplug)"
  fi
elif [ "$1" = remove ] && [ -e /var/lib/glowplug ]; then
  echo "glowplug: the data stays in /var/lib/glowplug, and the settings in /etc/glowplug; dpkg --purge glowplug removes both"
fi
