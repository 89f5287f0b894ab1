package v1

// HardwareDetails is the hardware of a machine, in the shape of Metal3 (HardwareDetails of its API
// v1alpha1). Of a disk it also has the partition table and what the partitions contain.
type HardwareDetails struct {
	// systemVendor is the maker of the machine.
	// +optional
	SystemVendor *HardwareSystemVendor `json:"systemVendor,omitempty"`
	// ramMebibytes is the size of the memory in MiB.
	// +optional
	RAMMebibytes int64 `json:"ramMebibytes,omitempty"`
	// nics are the network cards, at most 256.
	// +optional
	// +listType=atomic
	NICs []HardwareNIC `json:"nics,omitempty"`
	// storage are the disks, at most 256.
	// +optional
	// +listType=atomic
	Storage []HardwareDisk `json:"storage,omitempty"`
	// cpu is the processor.
	// +optional
	CPU *HardwareCPU `json:"cpu,omitempty"`
	// hostname is the host name of the machine when it was inspected.
	// +optional
	Hostname string `json:"hostname,omitempty"`
}

// HardwareSystemVendor is the maker of a machine.
type HardwareSystemVendor struct {
	// manufacturer is the name of the maker.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// productName is the name of the product.
	// +optional
	ProductName string `json:"productName,omitempty"`
	// serialNumber is the serial number of the machine.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
}

// HardwareCPU is a processor.
type HardwareCPU struct {
	// arch is the architecture, such as x86_64.
	// +optional
	Arch string `json:"arch,omitempty"`
	// model is the name of the model.
	// +optional
	Model string `json:"model,omitempty"`
	// clockMegahertz is the clock rate in MHz.
	// +optional
	ClockMegahertz float64 `json:"clockMegahertz,omitempty"`
	// flags are the features of the processor, at most 1,000.
	// +optional
	// +listType=atomic
	Flags []string `json:"flags,omitempty"`
	// count is the number of logical processors.
	// +optional
	Count int64 `json:"count,omitempty"`
}

// HardwareNIC is a network card.
type HardwareNIC struct {
	// name is the name of the interface, such as eno1.
	// +optional
	Name string `json:"name,omitempty"`
	// model is the vendor and the device of the card.
	// +optional
	Model string `json:"model,omitempty"`
	// mac is the hardware address of the card.
	// +optional
	MAC string `json:"mac,omitempty"`
	// ip is the address of the card.
	// +optional
	IP string `json:"ip,omitempty"`
	// speedGbps is the speed in Gbit/s.
	// +optional
	SpeedGbps int64 `json:"speedGbps,omitempty"`
	// pxe is true where the card can boot over the network.
	// +optional
	PXE bool `json:"pxe,omitempty"`
}

// HardwareDisk is a disk.
type HardwareDisk struct {
	// name is the device, such as /dev/sda. A name below /dev/disk/by-path is the better one: it
	// stays the same from boot to boot.
	Name string `json:"name"`
	// alternateNames are other paths of the device, at most 64.
	// +optional
	// +listType=atomic
	AlternateNames []string `json:"alternateNames,omitempty"`
	// rotational is true for a disk that turns.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// type is HDD, SSD or NVME.
	// +optional
	Type string `json:"type,omitempty"`
	// sizeBytes is the size in bytes.
	// +optional
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// vendor is the maker of the disk.
	// +optional
	Vendor string `json:"vendor,omitempty"`
	// model is the name of the model.
	// +optional
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the disk.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the world-wide name of the disk.
	// +optional
	WWN string `json:"wwn,omitempty"`
	// hctl is the SCSI address of the disk, such as 0:0:0:0.
	// +optional
	HCTL string `json:"hctl,omitempty"`
	// partitionTable is gpt, dos, another type of blkid, or none. If it is empty, it is not known what
	// the disk contains. Metal3 does not have this field.
	// +optional
	PartitionTable string `json:"partitionTable,omitempty"`
	// sectorBytes is the size of a logical sector: 512 (default) or 4096. Metal3 does not have this
	// field.
	// +optional
	SectorBytes int64 `json:"sectorBytes,omitempty"`
	// firstSector and lastSector are the usable part of a gpt, as sfdisk says it; 0 where they are
	// unknown. Metal3 does not have these fields.
	// +optional
	FirstSector int64 `json:"firstSector,omitempty"`
	// lastSector is the last usable sector, see firstSector.
	// +optional
	LastSector int64 `json:"lastSector,omitempty"`
	// partitionTableLength is the number of partitions that a gpt has room for, as sfdisk says it; 0
	// where it is 128 or unknown. Metal3 does not have this field.
	// +optional
	PartitionTableLength int64 `json:"partitionTableLength,omitempty"`
	// content is what the whole disk contains. It can be there beside a partition table: blkid takes
	// the begin of some file systems for one. Metal3 does not have this field.
	// +optional
	Content *HardwareContent `json:"content,omitempty"`
	// partitions are those of the partition table, at most 128. Metal3 does not have this field.
	// +optional
	// +listType=atomic
	Partitions []HardwarePartition `json:"partitions,omitempty"`
}

// HardwarePartition is a partition of a disk.
type HardwarePartition struct {
	// number is the number of the partition.
	Number int64 `json:"number"`
	// startSector and sizeSectors are its place, in logical sectors.
	StartSector int64 `json:"startSector"`
	// sizeSectors is the size in logical sectors.
	SizeSectors int64 `json:"sizeSectors"`
	// label is the name in the partition table.
	// +optional
	Label string `json:"label,omitempty"`
	// guid identifies the partition.
	// +optional
	GUID string `json:"guid,omitempty"`
	// typeGuid is the type of the partition.
	// +optional
	TypeGUID string `json:"typeGuid,omitempty"`
	// content is what it contains; if it is missing, that is unknown.
	// +optional
	Content *HardwareContent `json:"content,omitempty"`
}

// HardwareContent is what a partition or a disk contains, as blkid says it.
type HardwareContent struct {
	// type is the type of blkid, such as ext4, swap or crypto_LUKS; empty if blkid finds nothing.
	// +optional
	Type string `json:"type,omitempty"`
	// version is that of the format.
	// +optional
	Version string `json:"version,omitempty"`
	// label is the label of the file system.
	// +optional
	Label string `json:"label,omitempty"`
	// uuid identifies the file system or the volume.
	// +optional
	UUID string `json:"uuid,omitempty"`
}
