#!/usr/bin/env bash
# Tests the packages of ./glowplug (make build): the deb in a Debian 12 of its own, from the
# installation over an upgrade with data to the purge, the rpm by what Debian's rpm says and unpacks,
# and the image of the container, which is read and started. It needs root and a mirror of Debian.
# DEBIAN_ROOT=FOLDER takes a copy of what debootstrap has made there before.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/install-test-packages.sh
if [ "$(id -u)" != 0 ]; then
  echo "test-packages: skipped, it needs root for a Debian of its own" >&2
  exit 0
fi

work=$(mktemp -d)
root=$work/debian
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  ! mountpoint -q "$root/proc" || umount -l "$root/proc"
  rm -rf "$work"
}
trap finish EXIT

fail() {
  echo "error: $*" >&2
  [ ! -s "$work/log" ] || tail -20 "$work/log" >&2
  exit 1
}
step() { echo "== $*"; }
within() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
# has TEXT COMMAND...: the command succeeds and prints the text.
has() {
  local text=$1 out
  shift
  out=$("$@" 2>&1) || fail "$*: $out"
  grep -qF -- "$text" <<<"$out" || fail "$* does not print '$text': $out"
}

step "packages of two versions"
arch=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
go -C hack/release build -o "$work/" ./ociimage github.com/goreleaser/nfpm/v2/cmd/nfpm
go run ./hack/genman 0.2.0 "$work/extras"
for version in 0.2.0-rc.1 0.2.0; do
  mkdir "$work/$version"
  hack/package.sh $version "$arch" glowplug "$work/extras" "$work/nfpm" "$work/$version"
done
former=$(echo "$work"/0.2.0-rc.1/*.deb)
deb=$(echo "$work"/0.2.0/*.deb)
rpm=$(echo "$work"/0.2.0/*.rpm)
dpkg --compare-versions "$(dpkg-deb -f "$former" Version)" lt "$(dpkg-deb -f "$deb" Version)" || fail "a candidate is not older"
hack/package.sh 0.2.0 "$arch" glowplug "$work/extras" "$work/nfpm" "$work"
cmp "$deb" "$work/$(basename "$deb")" && cmp "$rpm" "$work/$(basename "$rpm")" || fail "a second build has other bytes"

step "a Debian 12"
if [ -n "${DEBIAN_ROOT:-}" ]; then
  cp -a "$DEBIAN_ROOT" "$root"
else
  mirror=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Codename: bookworm' | head -1)
  debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$work/log" 2>&1 || fail "debootstrap"
fi
mount -t proc proc "$root/proc"
mkdir -p "$root/debs"
cp "$former" "$root/debs/former.deb"
cp "$deb" "$root/debs/new.deb"

step "install"
within dpkg -i /debs/former.deb >"$work/log" 2>&1 || fail "dpkg -i"
grep -q '^  systemctl enable --now glowplug$' "$work/log" || fail "the installation does not say how to start it"
grep -q '^  export KUBECONFIG=/var/lib/glowplug/admin.kubeconfig && kubectl get ' "$work/log" || fail "nor how to use it"
[ ! -e "$root/etc/systemd/system/multi-user.target.wants/glowplug.service" ] || fail "it starts unasked"
has "glowplug:x:" within getent passwd glowplug
[ "$(within stat -c '%a %U' /var/lib/glowplug /etc/glowplug/glowplug.env | xargs)" = "700 glowplug 600 root" ] ||
  fail "modes: $(within stat -c '%n %a %U' /var/lib/glowplug /etc/glowplug/glowplug.env)"
has "glowplug.yaml: valid" within glowplug config check /etc/glowplug/glowplug.yaml
within bash -n /usr/share/bash-completion/completions/glowplug
within test -s /usr/share/man/man1/glowplug-serve.1.gz || fail "there is no manual page"

# serve starts the server as the unit does: its user, its variables, its command.
unit=$root/lib/systemd/system/glowplug.service
serve() {
  local user command
  user=$(sed -n 's/^User=//p' "$unit")
  command=$(sed -n 's/^ExecStart=//p' "$unit")
  # shellcheck disable=SC2046,SC2086
  chroot --userspec="$user:$user" "$root" env -i $(sed -n 's/^Environment=//p' "$unit") $command >>"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    if within env GLOWPLUG_CONFIG=/etc/glowplug/glowplug.yaml glowplug probe 2>/dev/null; then
      return
    fi
    kill -0 $server 2>/dev/null || fail "the server ended"
    sleep 0.1
  done
  fail "the server does not answer"
}
stop() {
  kill $server
  wait $server || fail "the server ended with an error"
  server=
}
client() { within env KUBECONFIG=/var/lib/glowplug/admin.kubeconfig glowplug "$@"; }

step "run, with settings of this machine"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
printf 'listen: ["127.0.0.1:%s"]\nlisten-tls: 127.0.0.1:%s\niscsi-listen: 127.0.0.1:%s\n' "$(port)" "$(port)" "$(port)" \
  >>"$root/etc/glowplug/glowplug.yaml"
cat >"$root/host.yaml" <<'END'
apiVersion: v1
kind: BareMetalHost
metadata: {name: node-1, namespace: rack-a}
spec: {bootMACAddress: "52:54:00:12:34:56"}
END
serve
has node-1 client apply -f /host.yaml
has "state:      Available" client status rack-a/node-1
stop

step "upgrade: the data and the settings stay"
within dpkg -i /debs/new.deb >"$work/log" 2>&1 || fail "dpkg -i"
! grep -q 'systemctl enable' "$work/log" || fail "an upgrade tells of the first start"
[ "$(within dpkg-query -W -f '${Version}' glowplug)" = 0.2.0 ] || fail "not upgraded"
grep -q '^iscsi-listen: ' "$root/etc/glowplug/glowplug.yaml" || fail "the settings are lost"
serve
has "state:      Available" client status rack-a/node-1
stop

step "remove: the program goes, data and settings stay"
touch "$root/etc/glowplug/nats-password"
within dpkg -r glowplug >"$work/log" 2>&1 || fail "dpkg -r"
grep -q 'the data stays in /var/lib/glowplug' "$work/log" || fail "it does not say what stays"
[ ! -e "$root/usr/bin/glowplug" ] || fail "the program is left"
[ -e "$root/var/lib/glowplug/admin.kubeconfig" ] && [ -e "$root/etc/glowplug/glowplug.yaml" ] || fail "something is lost"

step "purge: all goes but what root has put into /etc/glowplug"
within dpkg -P glowplug >"$work/log" 2>&1 || fail "dpkg -P"
grep -q 'kept in /etc/glowplug .*nats-password' "$work/log" || fail "it does not say what it keeps"
[ "$(ls "$root/etc/glowplug")" = nats-password ] || fail "left in /etc/glowplug: $(ls "$root/etc/glowplug")"
left=$(find "$root" -xdev -path "$root/proc" -prune -o -name '*glowplug*' -print | grep -v "^$root/\(etc/glowplug\|var/log/\|debs\)" || true)
[ -z "$left" ] || fail "left: $left"
rm "$root/etc/glowplug/nats-password"
within dpkg -i /debs/new.deb >"$work/log" 2>&1 && within dpkg -P glowplug >"$work/log" 2>&1 || fail "install and purge"
[ ! -e "$root/etc/glowplug" ] && [ ! -e "$root/var/lib/glowplug" ] || fail "a purge leaves folders"

step "rpm: what it says, and what it unpacks"
has "URL         : https://glowplug.dev" rpm -qpil "$rpm"
has systemd rpm -qp --requires "$rpm"
[ "$(rpm -qpc "$rpm" | xargs)" = "/etc/glowplug/glowplug.env /etc/glowplug/glowplug.yaml" ] || fail "settings: $(rpm -qpc "$rpm")"
# 17 are the flags of a config file (1) that is not replaced (16).
[ "$(rpm -qp --qf '[%{FILEFLAGS} %{FILENAMES}\n]' "$rpm" | grep -c '^17 ')" = 2 ] || fail "an upgrade replaces settings"
has "systemctl enable --now glowplug" rpm -qp --scripts "$rpm"
for script in PREIN POSTIN PREUN POSTUN; do
  rpm -qp --qf "%{$script}" "$rpm" | sed 's/^(none)$//' | sh -n || fail "the script $script"
done
mkdir -p "$work/fedora/var/lib/rpm"
rpm --root "$work/fedora" --dbpath /var/lib/rpm --nodeps --noscripts -i "$rpm" >"$work/log" 2>&1 || fail "rpm -i"
cmp glowplug "$work/fedora/usr/bin/glowplug" || fail "the program is another one"
[ "$(stat -c %a "$work/fedora/etc/glowplug/glowplug.env")" = 600 ] || fail "glowplug.env may be read"
for file in usr/lib/systemd/system/glowplug.service usr/lib/sysusers.d/glowplug.conf usr/share/man/man1/glowplug.1.gz \
  usr/share/zsh/site-functions/_glowplug usr/share/doc/glowplug/docs/README.md \
  usr/share/doc/glowplug/deploy/monitoring/alerts.yaml; do
  [ -s "$work/fedora/$file" ] || fail "the rpm lacks $file"
done

mkdir -p "$work/fedora/etc"
systemd-sysusers --root="$work/fedora" glowplug.conf >"$work/log" 2>&1 || fail "sysusers.d"
grep -q '^glowplug:x:[0-9]*:[0-9]*:.*:/var/lib/glowplug:' "$work/fedora/etc/passwd" || fail "sysusers.d makes no user"

step "the image: buildah reads it, and its program runs"
if command -v buildah >/dev/null; then
  "$work/ociimage" 0.2.0 abc "$work/image.tar" "$arch=glowplug"
  store() { buildah --storage-driver vfs --root "$work/store" --runroot "$work/run" "$@"; }
  image=$(store pull --quiet "oci-archive:$work/image.tar")
  has '"65532:65532"' store inspect --type image "$image"
  container=$(store from --pull-never "$image")
  rootfs=$(store mount "$container")
  [ "$(stat -c '%a %u' "$rootfs/data")" = "700 65532" ] || fail "/data is $(stat -c '%a %u' "$rootfs/data")"
  has glowplug chroot --userspec=65532:65532 "$rootfs" /glowplug version
  store umount "$container" >/dev/null
else
  echo "buildah is not installed: not tried"
fi
echo "packages: all as promised"
