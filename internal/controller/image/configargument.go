package image

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
)

// Reasons of the condition ConfigArgument.
const (
	reasonSet      = "ArgumentSet"
	reasonNotSet   = "NoConfigArgument"
	reasonUnwanted = "DefaultsNotWanted"
)

// configArgument is the condition ConfigArgument of an image that is served here; nil for any other.
func (f *finding) configArgument(cdrom *v1.ISCSICdrom) *metav1.Condition {
	tells, distro := false, ""
	switch {
	case f.Phase != v1.PhaseReady || cdrom.Spec.External != nil:
		return nil
	case f.Set != nil:
		tells, distro = f.Set.TellsConfig(&cdrom.Spec), f.Set.Distro()
	case f.Volume != nil && f.overlay != nil:
		tells, distro = f.Volume.FindsConfig(f.overlay), f.Volume.Image.Distro()
	default:
		return nil
	}
	c := &metav1.Condition{Type: v1.ConditionConfigArgument, ObservedGeneration: cdrom.Generation}
	switch {
	case tells:
		c.Status, c.Reason = metav1.ConditionTrue, reasonSet
		c.Message = "a kernel argument tells the system where its config is"
	case !cdrom.Spec.WantsDefaultKernelArgs():
		c.Status, c.Reason = metav1.ConditionUnknown, reasonUnwanted
		c.Message = "no kernel argument tells the system where its config is, and defaultKernelArgs is false"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonNotSet, noConfigArgument(distro)
	}
	return c
}

// noConfigArgument says that an image of a distribution has no argument for its config, and what to do.
func noConfigArgument(distro string) string {
	return "no kernel argument tells the system of the image (" + distro + ") where its config is, and no default one " +
		"is left: set kernelArgs, for example inst.ks=${glowplug}/api/v1/kickstart, or defaultKernelArgs: false if the " +
		"system needs none"
}
