package apiserver

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func defaultTemplate(t *corev1.PodTemplateSpec) { defaultPodSpec(&t.Spec) }

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	orPointer(&rs.Spec.Replicas, 1)
	defaultTemplate(&rs.Spec.Template)
}

func defaultDeployment(d *appsv1.Deployment) {
	orPointer(&d.Spec.Replicas, 1)
	orPointer(&d.Spec.RevisionHistoryLimit, 10)
	orPointer(&d.Spec.ProgressDeadlineSeconds, 600)
	orDefault(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		orPointer(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		orPointer(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		orPointer(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	}
	defaultTemplate(&d.Spec.Template)
}

// updateDeployment: a write of the status changes annotations, but no labels (DEP-17).
func updateDeployment(d, old *appsv1.Deployment, subresource string) {
	if subresource == "status" {
		d.Labels = old.Labels
	}
}

func defaultReplicationController(rc *corev1.ReplicationController) {
	orPointer(&rc.Spec.Replicas, 1)
	if t := rc.Spec.Template; t != nil {
		if len(rc.Spec.Selector) == 0 {
			rc.Spec.Selector = maps.Clone(t.Labels)
		}
		if len(rc.Labels) == 0 {
			rc.Labels = maps.Clone(t.Labels)
		}
		defaultTemplate(t)
	}
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	orPointer(&s.Spec.Replicas, 1)
	orPointer(&s.Spec.RevisionHistoryLimit, 10)
	orDefault(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	orDefault(&s.Spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		orPointer(&s.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		orPointer(&s.Spec.UpdateStrategy.RollingUpdate.Partition, 0)
		orPointer(&s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	orPointer(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	orDefault(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	orDefault(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range s.Spec.VolumeClaimTemplates {
		c := &s.Spec.VolumeClaimTemplates[i]
		c.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		defaultClaim(c)
	}
	defaultTemplate(&s.Spec.Template)
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	orPointer(&d.Spec.RevisionHistoryLimit, 10)
	orDefault(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if d.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		orPointer(&d.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		orPointer(&d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		orPointer(&d.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	defaultTemplate(&d.Spec.Template)
}

// templateGeneration counts the changes of the template of a DaemonSet.
const templateGeneration = appsv1.DeprecatedTemplateGeneration

func createDaemonSet(_ *Server, d *appsv1.DaemonSet) { setAnnotation(d, templateGeneration, "1") }

func updateDaemonSet(d, old *appsv1.DaemonSet, subresource string) {
	n, err := strconv.Atoi(old.Annotations[templateGeneration])
	if err != nil || subresource != "" {
		return
	}
	defaultTemplate(&d.Spec.Template)
	if !equality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
		n++
	}
	setAnnotation(d, templateGeneration, strconv.Itoa(n))
}

func setAnnotation(o Object, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

func defaultJob(j *batchv1.Job) {
	s := &j.Spec
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = ptr.To[int32](1)
	}
	orPointer(&s.Parallelism, 1)
	orPointer(&s.BackoffLimit, 6)
	orPointer(&s.CompletionMode, batchv1.NonIndexedCompletion)
	orPointer(&s.Suspend, false)
	orPointer(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	orPointer(&s.ManualSelector, false)
	defaultTemplate(&s.Template)
}

// createJob gives a job a selector and labels of its own, unless it asks for none.
func createJob(_ *Server, j *batchv1.Job) {
	if ptr.Deref(j.Spec.ManualSelector, false) {
		return
	}
	uid := string(j.UID)
	if j.Spec.Template.Labels == nil {
		j.Spec.Template.Labels = map[string]string{}
	}
	l := j.Spec.Template.Labels
	l[batchv1.JobNameLabel], l["job-name"] = j.Name, j.Name
	l[batchv1.ControllerUidLabel], l["controller-uid"] = uid, uid
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(l)
	}
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: uid}}
}

func defaultCronJob(c *batchv1.CronJob) {
	orDefault(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	orPointer(&c.Spec.Suspend, false)
	orPointer(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	orPointer(&c.Spec.FailedJobsHistoryLimit, 1)
	defaultTemplate(&c.Spec.JobTemplate.Spec.Template)
}

func defaultAutoscaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	orPointer(&h.Spec.MinReplicas, 1)
	if len(h.Spec.Metrics) == 0 {
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](80)},
			}}}
	}
}
