package peer

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// UserOf returns the user ID of the program at the other end of a connection that
// does not leave this machine: SO_PEERCRED of a Unix socket (unix(7)), the owner
// of the other end's socket for TCP (sock_diag(7)). A connection whose other end
// is closed, or in another user namespace, is of no user: ErrNoUser.
func UserOf(conn net.Conn) (uint32, error) {
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return 0, ErrNoUser
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoUser, err)
	}
	uid, failed := uint32(0), error(nil)
	err = control.Control(func(fd uintptr) {
		if _, unixSocket := conn.(*net.UnixConn); unixSocket {
			var peer *unix.Ucred
			if peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed == nil {
				uid = peer.Uid
			}
			return
		}
		uid, failed = ownerOf(conn, int(fd))
	})
	if err == nil {
		err = failed
	}
	if err == nil && uid == overflowUser() {
		err = fmt.Errorf("it is user %d, which stands for all users of other user namespaces", uid)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoUser, err)
	}
	return uid, nil
}

// ownerOf returns the owner of the socket at the other end of a TCP connection. That end
// may have been closed after its request, and its port be another program's: so this end
// has to be established still, after the question.
func ownerOf(conn net.Conn, fd int) (uint32, error) {
	local, remote := tcpAddr(conn.LocalAddr()), tcpAddr(conn.RemoteAddr())
	if !local.Addr().IsLoopback() || !remote.Addr().IsLoopback() {
		return 0, fmt.Errorf("%s and %s are not both loopback addresses", local, remote)
	}
	uid, err := lookupOwner(remote, local)
	if err != nil {
		return 0, err
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, os.NewSyscallError("TCP_INFO", err)
	}
	if info.State != unix.BPF_TCP_ESTABLISHED {
		return 0, fmt.Errorf("%s has closed it", remote)
	}
	return uid, nil
}

func tcpAddr(addr net.Addr) netip.AddrPort {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// The structures of sock_diag (linux/inet_diag.h).
type (
	// socketID is an inet_diag_sockid. Ports are big-endian.
	socketID struct {
		LocalPort, RemotePort [2]byte
		Local, Remote         [16]byte
		Interface             uint32
		Cookie                [2]uint32
	}
	// diagQuestion is an inet_diag_req_v2.
	diagQuestion struct {
		Family, Protocol, Extensions, _ uint8
		States                          uint32
		ID                              socketID
	}
	// diagAnswer is an inet_diag_msg.
	diagAnswer struct {
		Family, State, Timer, Retransmits           uint8
		ID                                          socketID
		Expires, ReadQueue, WriteQueue, User, Inode uint32
	}
)

// lookupOwner returns the user that owns the established TCP socket with these
// addresses.
func lookupOwner(local, remote netip.AddrPort) (uint32, error) {
	question := diagQuestion{
		Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, States: 1 << unix.BPF_TCP_ESTABLISHED,
		ID: socketID{Cookie: [2]uint32{nl.TCPDIAG_NOCOOKIE, nl.TCPDIAG_NOCOOKIE}},
	}
	if local.Addr().Is4() {
		question.Family = unix.AF_INET
	}
	binary.BigEndian.PutUint16(question.ID.LocalPort[:], local.Port())
	binary.BigEndian.PutUint16(question.ID.RemotePort[:], remote.Port())
	copy(question.ID.Local[:], local.Addr().AsSlice())
	copy(question.ID.Remote[:], remote.Addr().AsSlice())
	data, err := binary.Append(nil, binary.NativeEndian, &question)
	if err != nil {
		return 0, err
	}
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	request.AddRawData(data)
	answers, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return 0, fmt.Errorf("asking sock_diag for the socket of %s: %w", local, err)
	}
	var answer diagAnswer
	if len(answers) != 1 {
		return 0, fmt.Errorf("sock_diag gave %d answers for the socket of %s", len(answers), local)
	}
	if _, err := binary.Decode(answers[0], binary.NativeEndian, &answer); err != nil {
		return 0, fmt.Errorf("the answer of sock_diag for the socket of %s: %w", local, err)
	}
	// A socket that no program holds any more has no inode, and user 0. A listening
	// socket, or one of other addresses, is another one than the question names.
	from := answer.address(answer.ID.Local, answer.ID.LocalPort)
	to := answer.address(answer.ID.Remote, answer.ID.RemotePort)
	if answer.State != unix.BPF_TCP_ESTABLISHED || answer.Inode == 0 || from != local || to != remote {
		return 0, fmt.Errorf("%s has closed it", local)
	}
	return answer.User, nil
}

// address returns an address of the answer's socket. An IPv6 socket that speaks IPv4 has
// IPv4-mapped ones.
func (d *diagAnswer) address(addr [16]byte, port [2]byte) netip.AddrPort {
	ip := netip.AddrFrom16(addr).Unmap()
	if d.Family == unix.AF_INET {
		ip = netip.AddrFrom4([4]byte(addr[:4]))
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port[:]))
}

// overflowUser is the user that the kernel shows for users that have no number in
// the user namespace of this process (user_namespaces(7)).
var overflowUser = sync.OnceValue(func() uint32 {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	uid, parseErr := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || parseErr != nil {
		return 65534
	}
	return uint32(uid)
})
