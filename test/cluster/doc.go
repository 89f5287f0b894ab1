// Package cluster holds a test alone: three NATS servers and two of glowplug, each
// in a network namespace of its own, under kill -9, pause and partition of the
// stream's leader. Clients write and read through both servers meanwhile, and a
// checker (porcupine) searches every history for an order of its calls that a
// single copy of each object could have had.
//
// It takes minutes and both cores of a small machine, so make test runs it by
// itself, with TEST_CLUSTER=1. TEST_CLUSTER_SEED repeats a run's choices,
// and TEST_CLUSTER_PASSES runs the table of faults more often.
package cluster
