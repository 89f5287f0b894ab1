module glowplug/test/clients/ignition-0.35.0

go 1.26.0

// Ignition 0.35.0 has no go.mod; these are the versions of its glide.lock, or the
// nearest that the proxy has.
require (
	github.com/ajeddeloh/go-json v0.0.0-20170920214419-6a2fe990e083 // indirect
	github.com/aws/aws-sdk-go v1.8.39 // indirect
	github.com/coreos/go-semver v0.3.0 // indirect
	github.com/coreos/go-systemd v0.0.0-20181031085051-9002847aa142 // indirect
	github.com/coreos/ignition v0.35.0 // indirect
	github.com/go-ini/ini v1.25.4 // indirect
	github.com/godbus/dbus v0.0.0-20181025153459-66d97aec3384 // indirect
	github.com/jmespath/go-jmespath v0.0.0-20180206201540-c2b33e8439af // indirect
	github.com/pin/tftp v2.1.0+incompatible // indirect
	github.com/sigma/vmw-guestinfo v0.0.0 // indirect
	github.com/vincent-petithory/dataurl v0.0.0-20160330182126-9a301d65acbb // indirect
	github.com/vmware/vmw-ovflib v0.0.0-20170608004843-1f217b9dc714 // indirect
	golang.org/x/net v0.48.0 // indirect
)

require (
	github.com/smartystreets/goconvey v1.8.1 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go4.org v0.0.0-20260112195520-a5071408f32f // indirect
	golang.org/x/text v0.43.0 // indirect
	gopkg.in/yaml.v2 v2.4.0 // indirect
)

tool (
	github.com/coreos/ignition/internal
	github.com/coreos/ignition/validate
)

replace github.com/sigma/vmw-guestinfo => ./vmw-guestinfo
