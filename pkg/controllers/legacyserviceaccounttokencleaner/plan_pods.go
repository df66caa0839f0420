package legacyserviceaccounttokencleaner

import corev1 "k8s.io/api/core/v1"

// secretsOf returns the names of the Secrets that a pod refers to (LTC-7).
func secretsOf(p *corev1.Pod) (names []string) {
	for _, r := range p.Spec.ImagePullSecrets {
		names = append(names, r.Name)
	}
	for i := range p.Spec.Containers {
		names = append(names, secretsOfContainer(p.Spec.Containers[i].Env, p.Spec.Containers[i].EnvFrom)...)
	}
	for i := range p.Spec.InitContainers {
		names = append(names, secretsOfContainer(p.Spec.InitContainers[i].Env, p.Spec.InitContainers[i].EnvFrom)...)
	}
	for i := range p.Spec.EphemeralContainers {
		names = append(names,
			secretsOfContainer(p.Spec.EphemeralContainers[i].Env, p.Spec.EphemeralContainers[i].EnvFrom)...)
	}
	for i := range p.Spec.Volumes {
		names = append(names, secretsOfVolume(&p.Spec.Volumes[i].VolumeSource)...)
	}
	return names
}

// secretsOfContainer returns the names of the Secrets in the environment of a container.
func secretsOfContainer(env []corev1.EnvVar, from []corev1.EnvFromSource) (names []string) {
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			names = append(names, e.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, f := range from {
		if f.SecretRef != nil {
			names = append(names, f.SecretRef.Name)
		}
	}
	return names
}

// secretsOfVolume returns the names of the Secrets that a volume is made of, or that its plugin needs. It has
// all the sources that can name one.
func secretsOfVolume(v *corev1.VolumeSource) (names []string) {
	switch {
	case v.Secret != nil:
		return []string{v.Secret.SecretName}
	case v.AzureFile != nil:
		return []string{v.AzureFile.SecretName}
	case v.ScaleIO != nil:
		return nameOf(v.ScaleIO.SecretRef)
	case v.CephFS != nil:
		return nameOf(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return nameOf(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return nameOf(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		return nameOf(v.ISCSI.SecretRef)
	case v.RBD != nil:
		return nameOf(v.RBD.SecretRef)
	case v.StorageOS != nil:
		return nameOf(v.StorageOS.SecretRef)
	case v.CSI != nil:
		return nameOf(v.CSI.NodePublishSecretRef)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				names = append(names, source.Secret.Name)
			}
		}
	}
	return names
}

// nameOf returns the name in a reference, as a list that is empty without one.
func nameOf(r *corev1.LocalObjectReference) []string {
	if r == nil {
		return nil
	}
	return []string{r.Name}
}
