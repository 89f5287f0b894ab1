package iscsi

import (
	"slices"
	"strconv"
)

// The protocol's defaults, RFC 7143 section 13, and its bounds.
const (
	defaultSegment    = 8192
	defaultBurst      = 262144
	defaultFirstBurst = 65536
	minSegment        = 512
	maxSegment        = 1<<24 - 1
)

const (
	yes           = "Yes"
	no            = "No"
	none          = "None"
	crc32c        = "CRC32C"
	rejected      = "Reject"
	irrelevant    = "Irrelevant"
	notUnderstood = "NotUnderstood"
)

// params is what a connection has agreed on.
type params struct {
	digests
	maxSend  int // the initiator's MaxRecvDataSegmentLength, in bytes
	maxBurst int // in bytes
}

func defaultParams() params {
	return params{maxSend: defaultSegment, maxBurst: defaultBurst}
}

// negotiate answers one operational key of the initiator (RFC 7143, section 13). reply
// is false for a key without an answer. A value that cannot be accepted is rejected, and
// the parameter keeps its value.
func (p *params) negotiate(key, value string) (answer string, reply bool) {
	switch key {
	case "HeaderDigest":
		return pickDigest(value, &p.header), true
	case "DataDigest":
		return pickDigest(value, &p.data), true
	case "MaxRecvDataSegmentLength":
		n, ok := number(value, minSegment, maxSegment)
		if !ok {
			return rejected, true
		}
		p.maxSend = n &^ 3
		return "", false
	case "TaskReporting":
		if !slices.Contains(list(value), "RFC3720") {
			return rejected, true
		}
		return "RFC3720", true
	case "InitiatorAlias", "InitiatorName", "SessionType", "TargetName":
		return "", false
	case "IFMarkInt", "OFMarkInt":
		return irrelevant, true
	}
	if k, ok := numbers[key]; ok {
		n, ok := number(value, k.low, k.high)
		if !ok {
			return rejected, true
		}
		return strconv.Itoa(k.agree(p, n)), true
	}
	answer, ok := bools[key]
	switch {
	case !ok:
		return notUnderstood, true
	case value != yes && value != no:
		return rejected, true
	}
	return answer, true
}

// numbers are the keys with a range of valid numbers. agree returns the answer to one.
var numbers = map[string]struct {
	low, high int
	agree     func(p *params, n int) int
}{
	"MaxConnections":     {1, 65535, always(1)},
	"MaxOutstandingR2T":  {1, 65535, always(1)},
	"ErrorRecoveryLevel": {0, 2, always(0)},
	"DefaultTime2Retain": {0, 3600, always(0)},
	"DefaultTime2Wait":   {0, 3600, func(_ *params, n int) int { return max(n, 2) }},
	"iSCSIProtocolLevel": {0, 31, always(1)},
	"MaxBurstLength": {minSegment, maxSegment, func(p *params, n int) int {
		p.maxBurst = min(n, defaultBurst) &^ 3
		return p.maxBurst
	}},
	"FirstBurstLength": {minSegment, maxSegment, func(p *params, n int) int {
		return min(n, defaultFirstBurst, p.maxBurst)
	}},
}

func always(answer int) func(*params, int) int {
	return func(*params, int) int { return answer }
}

// bools are the keys that are Yes or No, with their one answer. Where either side's
// Yes decides it is Yes: no data is sent that was not requested. Where either side's No
// decides it is No: a write fails, and its data would be sent in vain.
var bools = map[string]string{
	"InitialR2T": yes, "DataPDUInOrder": yes, "DataSequenceInOrder": yes,
	"ImmediateData": no, "IFMarker": no, "OFMarker": no,
}

func pickDigest(value string, on *bool) string {
	for _, method := range list(value) {
		if method == crc32c || method == none {
			*on = method == crc32c
			return method
		}
	}
	return rejected
}
