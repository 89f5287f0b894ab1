// Package api serves glowplug's objects as a Kubernetes API: the kinds of
// api/v1 under /api/v1 with every verb that kubectl and client-go use, on the
// library k8s.io/apiserver and the stores of package kvstore. It compiles configs
// as they are written, and decides who may call it (doors.go).
package api
