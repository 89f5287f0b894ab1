package model

import (
	"errors"
	"hash/maphash"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	v1 "glowplug/api/v1"
)

// The stored types are the members of stored objects that matching and serving
// need. The rest, managedFields above all, is read over.
type (
	storedHost struct {
		Metadata metadata             `json:"metadata"`
		Spec     v1.BareMetalHostSpec `json:"spec"`
		Status   hostStatus           `json:"status"`
	}
	storedConfig struct {
		Metadata metadata              `json:"metadata"`
		Spec     v1.IgnitionConfigSpec `json:"spec"`
		Status   configStatus          `json:"status"`
		Compiled *v1.Compiled          `json:"compiled"`
	}
	storedImage struct {
		Metadata metadata          `json:"metadata"`
		Spec     v1.ISCSICdromSpec `json:"spec"`
		Status   imageStatus       `json:"status"`
	}
	storedNamespace struct {
		Metadata metadata `json:"metadata"`
	}
)

type metadata struct {
	UID         string            `json:"uid"`
	Created     timestamp         `json:"creationTimestamp"`
	Generation  int64             `json:"generation"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type hostStatus struct {
	State      string      `json:"state"`
	LastScript timestamp   `json:"lastScript"`
	LastSeen   timestamp   `json:"lastSeen"`
	LastBoot   timestamp   `json:"lastBoot"`
	Rearmed    string      `json:"rearmed"`
	BootCount  int64       `json:"bootCount"`
	BootRecord int64       `json:"bootRecord"`
	Conditions []condition `json:"conditions"`
	Hardware   digest      `json:"hardware"`

	Armed        timestamp              `json:"armed"`
	Provisioning *v1.ProvisioningStatus `json:"provisioning"`
}

type configStatus struct {
	Phase        string                `json:"phase"`
	ErrorMessage string                `json:"errorMessage"`
	Servable     []v1.ServableVersions `json:"servable"`
	Layers       []v1.LayerStatus      `json:"layers"`
}

type imageStatus struct {
	Phase         string         `json:"phase"`
	ErrorMessage  string         `json:"errorMessage"`
	SHA256        string         `json:"sha256"`
	ServedRelease string         `json:"servedRelease"`
	MaxIgnition   string         `json:"maxIgnition"`
	TargetIQN     string         `json:"targetIQN"`
	Files         []v1.ImageFile `json:"files"`
	Architectures []string       `json:"architectures"`

	Distro            string           `json:"distro"`
	KernelArgsApplied []string         `json:"kernelArgsApplied"`
	OwnKernelArgs     []string         `json:"ownKernelArgs"`
	Conditions        []imageCondition `json:"conditions"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type imageCondition struct {
	condition
	Message string `json:"message"`
}

// digest identifies a value within a process, which is not decoded; 0 is null.
type digest uint32

var digestSeed = maphash.MakeSeed()

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (d *digest) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	value, err := decoder.ReadValue()
	if *d = 0; err == nil && value.Kind() != 'n' {
		*d = max(1, digest(maphash.Bytes(digestSeed, value)>>32))
	}
	return err
}

// timestamp is a time in UTC; null and "" are zero.
type timestamp time.Time

var errTime = errors.New("not a time of RFC 3339")

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *timestamp) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = timestamp{}
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return errTime // err has the text
	}
	*t = timestamp(at.UTC())
	return nil
}

var errNoObject = errors.New("not a JSON object")

// reading has objects read as the API reads them.
var reading = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.ParseBytesWithLooseRFC4648(true),
)

// read decodes a stored value. The error does not hold any of it: it may have
// passwords.
func read(value []byte, object any) error {
	if jsontext.Value(value).Kind() != '{' {
		return errNoObject
	}
	err := json.Unmarshal(value, object, reading)
	if wrong := (*json.SemanticError)(nil); errors.As(err, &wrong) {
		wrong.JSONValue = nil
	}
	return err
}
