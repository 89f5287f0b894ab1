# After the files are there: makes the user and its folders. A service is not started, since it
# opens ports. The first argument is the number of this package's versions that are installed now.
systemd-sysusers glowplug.conf || :
if [ ! -e /var/lib/glowplug ] && [ ! -L /var/lib/glowplug ]; then
  install -d -m 0700 -o glowplug -g glowplug /var/lib/glowplug /var/lib/glowplug/isos
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || :
fi
if [ "$1" = 1 ]; then
  echo "glowplug is installed and not started: it opens the ports 8082, 8443 and 3260. To start it and use it:"
  echo "  systemctl enable --now glowplug"
  echo "  export KUBECONFIG=/var/lib/glowplug/admin.kubeconfig && kubectl get baremetalhosts -A"
fi
