package api

import (
	"time"

	v1 "glowplug/api/v1"
)

func configMapStrategy() *strategy[*v1.ConfigMap] {
	return &strategy[*v1.ConfigMap]{
		namespaced:     true,
		validate:       v1.ValidateConfigMap,
		validateUpdate: v1.ValidateConfigMapUpdate,
	}
}

var configMapTable = &table[*v1.ConfigMap]{
	columns: []column{
		{name: "Name", description: "The ConfigMap's name."},
		{name: "Data", kind: "integer", description: "The number of its keys."},
		{name: "Age", description: "Time since the ConfigMap was created."},
	},
	row: func(cm *v1.ConfigMap, now time.Time) []any {
		return []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), age(cm.CreationTimestamp, now)}
	},
}
