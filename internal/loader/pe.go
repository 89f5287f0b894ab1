package loader

import (
	"bytes"
	"debug/pe"
	"errors"
	"strings"
)

// certificates is the index of the data directory with the signatures (PE format, section 4.7).
const certificates = 4

// maxSBAT bounds the section with the generations, in bytes.
const maxSBAT = 64 << 10

var errFormat = errors.New("not a program for UEFI that is known")

// inspect reads the architecture, the signature and the SBAT section of a program for UEFI.
func inspect(l *Loader) error {
	file, _, err := l.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	program, err := pe.NewFile(file)
	if err != nil {
		return err
	}
	switch program.Machine {
	case pe.IMAGE_FILE_MACHINE_I386:
		l.Arch = IA32
	case pe.IMAGE_FILE_MACHINE_AMD64:
		l.Arch = X64
	case pe.IMAGE_FILE_MACHINE_ARM64:
		l.Arch = ARM64
	default:
		return errFormat
	}
	switch header := program.OptionalHeader.(type) {
	case *pe.OptionalHeader32:
		l.Signed = header.DataDirectory[certificates].Size > 0
	case *pe.OptionalHeader64:
		l.Signed = header.DataDirectory[certificates].Size > 0
	default:
		return errFormat
	}
	if section := program.Section(".sbat"); section != nil && section.Size <= maxSBAT {
		if text, err := section.Data(); err == nil {
			l.SBAT = generations(text)
		}
	}
	return nil
}

// generations returns the component and the generation of each line of an SBAT section
// (https://github.com/rhboot/shim/blob/main/SBAT.md).
func generations(text []byte) (all []string) {
	for line := range bytes.Lines(bytes.TrimRight(text, "\x00")) {
		fields := strings.SplitN(strings.TrimSpace(string(line)), ",", 3)
		if len(fields) == 3 && fields[0] != "sbat" {
			all = append(all, fields[0]+","+fields[1])
		}
	}
	return all
}
