{{- /* The names are those of the manifests: one manager in a cluster, and one observer. */}}
{{- define "name" -}}
{{- if eq .Values.mode "observer" }}controller-manager-observer{{ else }}controller-manager{{ end }}
{{- end }}
{{- define "labels" -}}
app.kubernetes.io/name: {{ include "name" . }}
app.kubernetes.io/part-of: controller-manager
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.mode }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "job" -}}
{{- get (dict "beside" "standalone-controller-manager" "standalone" "kube-controller-manager" "observer" "controller-manager-observer") .Values.mode }}
{{- end }}
{{- define "image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
