#!/bin/sh
# After the files are there: makes the user and its folders. A service that runs is restarted; one
# that does not run is not started, since it opens ports.
set -e
[ "$1" = configure ] || exit 0

if ! getent passwd glowplug >/dev/null; then
  if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers glowplug.conf
  else
    adduser --system --quiet --group --no-create-home --home /var/lib/glowplug --gecos "glowplug server" glowplug
  fi
fi
# Where the unit of an archive has run, systemd moves the data from /var/lib/private at the start.
if [ ! -e /var/lib/glowplug ] && [ ! -L /var/lib/glowplug ]; then
  install -d -m 0700 -o glowplug -g glowplug /var/lib/glowplug /var/lib/glowplug/isos
fi

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if [ -n "$2" ]; then
    if command -v deb-systemd-invoke >/dev/null; then
      deb-systemd-invoke try-restart glowplug.service || true
    else
      systemctl try-restart glowplug.service || true
    fi
  fi
fi
if [ -z "$2" ]; then
  cat <<'END'
glowplug is installed and not started: it opens the ports 8082, 8443 and 3260. To start it and use it:
  systemctl enable --now glowplug
  export KUBECONFIG=/var/lib/glowplug/admin.kubeconfig && kubectl get baremetalhosts -A
END
fi
