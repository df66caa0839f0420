package oracle

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// requestLife is how long a PodCertificateRequest stays (CSR-43).
const requestLife = 15 * time.Minute

// PodCertificateRequestsStayForATime is S38: no manager deletes a PodCertificateRequest before a quarter of an hour has passed since the
// API server has created it, whatever became of it (CSR-43, PCC-1), unless its whole namespace goes or its owner does.
func PodCertificateRequestsStayForATime() Oracle {
	return Oracle{"S38", "requests for the certificates of pods stay for a quarter of an hour", func(j *judge) hooks {
		return hooks{before: func(r *revision) {
			request, ok := r.old.(*certificatesv1.PodCertificateRequest)
			if !ok || !r.manager || !r.deletes() {
				return
			}
			if j.ending[request.Namespace] || len(request.OwnerReferences) > 0 {
				j.judges(true)
				return
			}
			j.judges(false)
			if early := request.CreationTimestamp.Add(requestLife).Sub(j.now); early > 0 {
				j.report(r, nil, "deleted %v before its time", early.Round(time.Millisecond))
			}
		}}
	}}
}
