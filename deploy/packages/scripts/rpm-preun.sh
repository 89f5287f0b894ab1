if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then
  systemctl --quiet disable --now glowplug.service || :
fi
