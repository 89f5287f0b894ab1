package iscsi

import (
	"bytes"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"
)

func FuzzParse(f *testing.F) {
	h := newHeader(opCommand, 0xc0, 1)
	f.Add(appendPDU(nil, &h, []byte("data"), digests{true, true}), true, true)
	f.Add(appendPDU(nil, &h, nil, digests{}), false, false)
	f.Add(bytes.Repeat([]byte{0xff}, 100), false, true)
	f.Fuzz(func(t *testing.T, b []byte, header, data bool) {
		with := digests{header, data}
		r, n, err := parse(b, with)
		if err != nil {
			return
		}
		if n < headerLen || n > headerLen+4*255+maxReceive+2*digestLen {
			t.Fatalf("a PDU of %d bytes", n)
		}
		if n > len(b) {
			return
		}
		again, m, err := parse(b[:n], with)
		if err != nil || m != n || !bytes.Equal(again.data, r.data) {
			t.Fatalf("parsed anew: %d bytes, %v", m, err)
		}
		if _, m, err := parse(b[:n-1], with); err != nil || m < n-1 && m != headerLen {
			t.Fatalf("a byte less: %d, %v", m, err)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("InitiatorName=iqn.x\x00SessionType=Discovery\x00"))
	f.Add([]byte("CHAP_A=5\x00CHAP_R=0xzz\x00HeaderDigest=CRC32C,None\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseText(b)
		if err != nil {
			return
		}
		again, err := parseText(keys.encode())
		if err != nil || !slices.Equal(keys, again) {
			t.Fatalf("%v becomes %v, %v", keys, again, err)
		}
		p := defaultParams()
		for _, each := range keys {
			p.negotiate(each.key, each.value)
			parseBinary(each.value)
		}
		if p.maxSend < minSegment || p.maxSend > maxSegment || p.maxBurst < minSegment || p.maxBurst > defaultBurst {
			t.Fatalf("agreed on %+v", p)
		}
		c := &chap{want: CHAP{"u", "p", "t", "q"}}
		c.begin("5")
		if _, err := c.finish(keys); err == nil {
			t.Fatal("let in without the secret")
		}
	})
}

func FuzzCommand(f *testing.F) {
	for _, op := range operations() {
		f.Add(append([]byte(op.usage), make([]byte, 16-len(op.usage))...), uint64(0))
		cdb := make([]byte, 16)
		cdb[0], cdb[1], cdb[8] = op.opcode, byte(max(op.action, 0)), 255
		f.Add(cdb, uint64(1))
	}
	disk := newMemory(make([]byte, 5*blockSize))
	f.Fuzz(func(t *testing.T, cdb []byte, lun uint64) {
		if len(cdb) < 16 {
			return
		}
		d := newDrive(&Target{IQN: testTarget, Disk: disk})
		for range 2 { // the second time with whatever state the first has left
			r := d.execute(lun, cdb[:16], nil)
			if len(r.data) > 4096 || r.status != statusGood && r.status != statusCheck {
				t.Fatalf("%d bytes, status %d", len(r.data), r.status)
			}
			if r.block < 0 || r.count < 0 || r.block+r.count > 5 {
				t.Fatalf("reads %d blocks at %d", r.count, r.block)
			}
		}
	})
}

// FuzzStream feeds a whole connection, from a login that succeeds on.
func FuzzStream(f *testing.F) {
	login := newHeader(opLogin|0x40, operationalToFull, 1)
	hello := appendPDU(nil, &login, named(testTarget).encode(), digests{})
	read := newHeader(opCommand, 0xc0, 2)
	read.put(20, 4096)
	copy(read[32:], cdbRead10(0, 2))
	f.Add(appendPDU(nil, &read, nil, digests{}))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Add(hello)
	text := newHeader(opText, 0xc0, 3)
	f.Add(appendPDU(nil, &text, []byte("SendTargets=All\x00"), digests{}))
	options := serving(newMemory(randomBytes(16 * blockSize)))
	options.Logger = slog.New(slog.DiscardHandler)
	s, err := New(options)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, b []byte) {
		here, there := net.Pipe()
		s.admit(there)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			buf := make([]byte, 64<<10)
			for {
				if _, err := here.Read(buf); err != nil {
					return
				}
			}
		}()
		here.SetWriteDeadline(time.Now().Add(5 * time.Second))
		here.Write(hello)
		here.Write(b)
		here.Close()
		<-drained
	})
}
