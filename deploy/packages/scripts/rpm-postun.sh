# After an upgrade a service that runs is restarted. The data and changed settings stay, as RPM
# packages leave them.
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
  if [ "$1" -ge 1 ]; then
    systemctl try-restart glowplug.service || :
  fi
fi
