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

// negotiate answers one operational key of the initiator; where there is
// nothing to answer, reply is false. What cannot be agreed on is rejected and
// stays as it was.
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
		if !ok {
			return rejected, true
		}
		p.maxBurst = min(n, defaultBurst) &^ 3
		return strconv.Itoa(p.maxBurst), true
	case "FirstBurstLength":
		n, ok := number(value, minSegment, maxSegment)
		return pickNumber(min(n, defaultFirstBurst, p.maxBurst), ok), true
	case "MaxConnections", "MaxOutstandingR2T":
		_, ok := number(value, 1, 65535)
		return pickNumber(1, ok), true
	case "ErrorRecoveryLevel":
		_, ok := number(value, 0, 2)
		return pickNumber(0, ok), true
	case "DefaultTime2Wait":
		n, ok := number(value, 0, 3600)
		return pickNumber(max(n, 2), ok), true
	case "DefaultTime2Retain":
		_, ok := number(value, 0, 3600)
		return pickNumber(0, ok), true
	case "InitialR2T", "DataPDUInOrder", "DataSequenceInOrder":
		// Either side's Yes decides: no data comes that was not asked for.
		return pickBool(value, yes), true
	case "ImmediateData", "IFMarker", "OFMarker":
		// Either side's No decides: a write fails, its data would be in vain.
		return pickBool(value, no), true
	case "IFMarkInt", "OFMarkInt":
		return irrelevant, true
	case "TaskReporting":
		if !slices.Contains(list(value), "RFC3720") {
			return rejected, true
		}
		return "RFC3720", true
	case "iSCSIProtocolLevel":
		_, ok := number(value, 0, 31)
		return pickNumber(1, ok), true
	case "InitiatorAlias", "InitiatorName", "SessionType", "TargetName":
		return "", false
	}
	return notUnderstood, true
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
