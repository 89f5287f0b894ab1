package api

import (
	"context"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"glowplug/internal/store/backup"
)

// backupPath answers with a backup of the store.
const backupPath = "/api/v1/backup"

// backupTrailer has the error of a backup that was broken off: its status was sent long before.
const backupTrailer = "Glowplug-Backup-Error"

// takeBackup is the verb of the right to a backup. It is none of those to read, which a role may give for all
// resources: with the key of the CA, a reader of all would be the administrator.
const takeBackup = "take"

// backupInfo has a GET of a backup need the verb takeBackup.
type backupInfo struct{ request.RequestInfoResolver }

// NewRequestInfo implements request.RequestInfoResolver.
func (b backupInfo) NewRequestInfo(r *http.Request) (*request.RequestInfo, error) {
	info, err := b.RequestInfoResolver.NewRequestInfo(r)
	if err == nil && r.URL.Path == backupPath && r.Method == http.MethodGet {
		info.Verb = takeBackup
	}
	return info, err
}

// backups answers with what a function writes. A backup has all Secrets and the key of the CA: the authorization before
// this gives it to those alone who have the verb takeBackup, which no built-in role but cluster-admin has.
func backups(write func(context.Context, io.Writer) (backup.Manifest, error)) http.Handler {
	if write == nil {
		return nil
	}
	return oneAtATime("backup", "another backup is being written: come again", func(w http.ResponseWriter, r *http.Request) {
		body := &begun{ResponseWriter: w, control: http.NewResponseController(w)}
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Trailer", backupTrailer)
		_, err := write(r.Context(), body)
		switch {
		case err == nil:
		case body.begun:
			w.Header().Set(backupTrailer, err.Error())
		default:
			w.Header().Del("Trailer")
			w.Header().Del("Content-Type")
			fail(w, r, apierrors.NewServiceUnavailable(err.Error()))
		}
	})
}

// oneAtATime answers a GET of what reads the whole store, and refuses another one meanwhile.
func oneAtATime(resource, busy string, answer http.HandlerFunc) http.Handler {
	turn := make(chan struct{}, 1)
	return only(http.MethodGet, resource, func(w http.ResponseWriter, r *http.Request) {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			answer(w, r)
		default:
			fail(w, r, apierrors.NewTooManyRequests(busy, 5))
		}
	})
}

// backupPause is how long a client may take none of a backup: it holds the turn, and what was stored at its begin.
const backupPause = 30 * time.Second

// begun knows whether the body was begun.
type begun struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.begun = true
	_ = b.control.SetWriteDeadline(time.Now().Add(backupPause))
	return b.ResponseWriter.Write(p)
}
