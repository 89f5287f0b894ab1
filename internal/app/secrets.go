package app

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/secrets"
)

// missingSecret returns the warning that an object names a Secret that is not there.
func missingSecret(in *secrets.Secrets, object metav1.Object) []string {
	path, name := "", ""
	switch o := object.(type) {
	case *v1.BareMetalHost:
		if bmc := o.Spec.BMC; bmc != nil {
			path, name = "spec.bmc.credentialsName", bmc.CredentialsName
		}
	case *v1.ISCSICdrom:
		if chap := o.Spec.CHAP; chap != nil {
			path, name = "spec.chap.secretName", chap.SecretName
		}
	}
	if err := in.Missing(object.GetNamespace(), name); err != nil {
		return []string{path + ": " + err.Error() + ": create it"}
	}
	return nil
}
