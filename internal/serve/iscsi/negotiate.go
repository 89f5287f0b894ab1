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
	case "MaxBurstLength":
		n, ok := number(value, minSegment, maxSegment)
		if ok {
			p.maxBurst = min(n, defaultBurst) &^ 3
		}
		return pickNumber(p.maxBurst, ok), true
	case "FirstBurstLength":
		n, ok := number(value, minSegment, maxSegment)
		return pickNumber(min(n, defaultFirstBurst, p.maxBurst), ok), true
	case "DefaultTime2Wait":
		n, ok := number(value, 0, 3600)
		return pickNumber(max(n, 2), ok), true
	case "TaskReporting":
		if !slices.Contains(list(value), "RFC3720") {
			return rejected, true
		}
		return "RFC3720", true
	case "InitiatorAlias", "InitiatorName", "SessionType", "TargetName":
		return "", false
	}
	if k, ok := fixedNumbers[key]; ok {
		_, ok := number(value, k.low, k.high)
		return pickNumber(k.answer, ok), true
	}
	if answer, ok := fixedBools[key]; ok {
		return pickBool(value, answer), true
	}
	if key == "IFMarkInt" || key == "OFMarkInt" {
		return irrelevant, true
	}
	return notUnderstood, true
}

// fixedNumbers are the keys with a range of valid numbers and one answer.
var fixedNumbers = map[string]struct{ low, high, answer int }{
	"MaxConnections":     {1, 65535, 1},
	"MaxOutstandingR2T":  {1, 65535, 1},
	"ErrorRecoveryLevel": {0, 2, 0},
	"DefaultTime2Retain": {0, 3600, 0},
	"iSCSIProtocolLevel": {0, 31, 1},
}

// fixedBools are the keys that are Yes or No and have one answer. Where either side's
// Yes decides it is Yes: no data is sent that was not requested. Where either side's No
// decides it is No: a write fails, and its data would be sent in vain.
var fixedBools = map[string]string{
	"InitialR2T": yes, "DataPDUInOrder": yes, "DataSequenceInOrder": yes,
	"ImmediateData": no, "IFMarker": no, "OFMarker": no,
}

func pickDigest(value string, on *bool) string {
	for _, method := range list(value) {
		switch method {
		case crc32c:
			*on = true
			return crc32c
		case none:
			*on = false
			return none
		}
	}
	return rejected
}

func pickNumber(n int, ok bool) string {
	if !ok {
		return rejected
	}
	return strconv.Itoa(n)
}

func pickBool(value, answer string) string {
	if value != yes && value != no {
		return rejected
	}
	return answer
}
