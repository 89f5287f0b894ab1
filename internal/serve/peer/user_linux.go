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
			uid, failed = credentialsOf(int(fd))
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

// credentialsOf asks a Unix socket.
func credentialsOf(fd int) (uint32, error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, os.NewSyscallError("SO_PEERCRED", err)
	}
	return peer.Uid, nil
}

// ownerOf asks for the socket at the other end of a TCP connection. That end may
// have been closed, and its port been taken by another program, after it had sent
// its request: so this end has to be established still, after the question.
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

// Layout of inet_diag_req_v2 and inet_diag_msg (linux/inet_diag.h), in bytes.
const (
	diagRequestSize = 56
	diagAnswerSize  = 72
	diagState       = 1
	diagRequestID   = 8 // inet_diag_sockid in the request
	diagAnswerID    = 4 // and in the answer
	diagCookie      = 36
	diagUser        = 64
	diagInode       = 68
)

// diagQuestion is an inet_diag_req_v2 for one socket.
type diagQuestion [diagRequestSize]byte

// Len implements nl.NetlinkRequestData.
func (q *diagQuestion) Len() int { return diagRequestSize }

// Serialize implements nl.NetlinkRequestData.
func (q *diagQuestion) Serialize() []byte { return q[:] }

// lookupOwner returns the user that owns the established TCP socket with these
// addresses.
func lookupOwner(local, remote netip.AddrPort) (uint32, error) {
	var question diagQuestion
	question[0] = unix.AF_INET6
	if local.Addr().Is4() {
		question[0] = unix.AF_INET
	}
	question[1] = unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(question[4:], 1<<unix.BPF_TCP_ESTABLISHED)
	binary.BigEndian.PutUint16(question[diagRequestID:], local.Port())
	binary.BigEndian.PutUint16(question[diagRequestID+2:], remote.Port())
	copy(question[diagRequestID+4:], local.Addr().AsSlice())
	copy(question[diagRequestID+20:], remote.Addr().AsSlice())
	for i := range 8 {
		question[diagRequestID+diagCookie+4+i] = 0xff // INET_DIAG_NOCOOKIE
	}
	request := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, 0)
	request.AddData(&question)
	answers, err := request.Execute(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY)
	if err != nil {
		return 0, fmt.Errorf("asking sock_diag for the socket of %s: %w", local, err)
	}
	if len(answers) != 1 || len(answers[0]) < diagAnswerSize {
		return 0, fmt.Errorf("sock_diag gave %d answers for the socket of %s", len(answers), local)
	}
	answer := answers[0]
	// A socket that nobody holds any more has no inode, and user 0. A listening
	// socket, or one of other addresses, is not the one that was asked for.
	held := binary.NativeEndian.Uint32(answer[diagInode:]) != 0
	from, to := answerAddrs(answer)
	if answer[diagState] != unix.BPF_TCP_ESTABLISHED || !held || from != local || to != remote {
		return 0, fmt.Errorf("%s has closed it", local)
	}
	return binary.NativeEndian.Uint32(answer[diagUser:]), nil
}

// answerAddrs returns the addresses of the socket that an inet_diag_msg is of. An
// IPv6 socket that speaks IPv4 has IPv4-mapped ones.
func answerAddrs(answer []byte) (local, remote netip.AddrPort) {
	size := 16
	if answer[0] == unix.AF_INET {
		size = 4
	}
	id := answer[diagAnswerID:]
	from, _ := netip.AddrFromSlice(id[4 : 4+size])
	to, _ := netip.AddrFromSlice(id[20 : 20+size])
	return netip.AddrPortFrom(from.Unmap(), binary.BigEndian.Uint16(id)),
		netip.AddrPortFrom(to.Unmap(), binary.BigEndian.Uint16(id[2:]))
}

// overflowUser is the user that the kernel shows for users that have no number in
// the user namespace of this process (user_namespaces(7)).
var overflowUser = sync.OnceValue(func() uint32 {
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return 65534
	}
	uid, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 65534
	}
	return uint32(uid)
})
