package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	v1 "glowplug/api/v1"
	"glowplug/internal/controller"
	"glowplug/internal/domain/model"
)

const (
	// inspectionPause is the least time between two reports of a host that change its hardware.
	inspectionPause = 10 * time.Second
	// inspectionTimeout bounds the wait of a machine until its report is durable.
	inspectionTimeout = 3 * time.Second
)

// Errors of Inspections.Report.
var (
	ErrTooSoon = errors.New("the hardware of the host has changed a moment ago")
	ErrGone    = errors.New("the host has been deleted")
)

// Inspections writes what machines report of their hardware into the status of their hosts. This
// is the only writer of status.hardware and status.inspected beside clients of the API.
type Inspections struct {
	store controller.Store
	now   func() time.Time
}

// NewInspections returns Inspections that write into a store of BareMetalHosts.
func NewInspections(store controller.Store) *Inspections { return &Inspections{store, time.Now} }

// Report stores the hardware of a host, and returns once that is durable. A report of what is
// stored already is not written.
func (i *Inspections) Report(ctx context.Context, host *model.Host, hardware *v1.HardwareDetails) error {
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	update := func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		stored := input.(*v1.BareMetalHost)
		now := i.now()
		switch before := stored.Status.Inspected; {
		case string(stored.UID) != host.UID:
			return nil, nil, ErrGone
		case equality.Semantic.DeepEqual(stored.Status.Hardware, hardware):
			return stored, nil, nil
		case before != nil && now.Sub(before.Time) < inspectionPause && !now.Before(before.Time):
			return nil, nil, ErrTooSoon
		}
		stored.Status.Hardware, stored.Status.Inspected = hardware, &metav1.Time{Time: now}
		return stored, nil, nil
	}
	err := i.store.GuaranteedUpdate(ctx, "/baremetalhosts/"+host.Ref.String(), &v1.BareMetalHost{}, false, nil, update, nil)
	if isNotFound(err) {
		return ErrGone
	}
	if err != nil && !errors.Is(err, ErrTooSoon) && !errors.Is(err, ErrGone) {
		return fmt.Errorf("the hardware of the host %s could not be stored: %w", host.Ref, err)
	}
	return err
}
