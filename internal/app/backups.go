package app

import (
	"time"

	"github.com/spf13/pflag"

	"glowplug/internal/controller/backups"
	"glowplug/internal/option"
	"glowplug/internal/store/backup"
)

// Backups are the options of the backups that the server writes by itself.
type Backups struct {
	Dir        string
	Every      time.Duration
	Keep       int
	Recipients []string
}

func (o *Backups) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Dir, "backup-dir", "",
		"folder for backups of the store, best on another disk (default: no backups); glowplug restore puts one back")
	fs.DurationVar(&o.Every, "backup-every", 6*time.Hour, "time between two backups in --backup-dir")
	fs.IntVar(&o.Keep, "backup-keep", 28, "backups to keep in --backup-dir")
	fs.StringSliceVar(&o.Recipients, "backup-recipient", nil,
		"encrypt the backups in --backup-dir for this recipient of age (age1…), or for those in this file (repeatable)")
}

// minBackupInterval is the least --backup-every.
const minBackupInterval = time.Minute

// checkBackups checks the options, and reads the recipients.
func (s *settings) checkBackups() (err error) {
	o := &s.Backups
	switch {
	case o.Every < minBackupInterval:
		return option.Bad("backup-every", "%v is less than a minute", o.Every)
	case o.Keep < 1:
		return option.Bad("backup-keep", "%d is less than 1", o.Keep)
	case len(o.Recipients) > 0 && o.Dir == "":
		return option.Bad("backup-recipient", "is for the backups in --backup-dir: give that too")
	}
	if s.backupsFor, err = backup.ParseRecipients(o.Recipients); err != nil {
		return option.Bad("backup-recipient", "%v", err)
	}
	return nil
}

// newBackups returns what writes the backups; nil where none are asked for.
func newBackups(a *App) *backups.Backups {
	o := a.settings.Backups
	if o.Dir == "" {
		return nil
	}
	if len(o.Recipients) == 0 && a.backend.Encrypted() {
		a.log.Warn("the store is encrypted, and its backups are not", "dir", o.Dir, "hint", "give --backup-recipient")
	}
	return backups.New(backups.Options{
		Dir: o.Dir, Every: o.Every, Keep: o.Keep, Recipients: a.settings.backupsFor,
		Store: a.backend.ID, Write: a.backend.Backup, Done: a.members.SetLastBackup,
		Logger: a.log, Registerer: a.metrics,
	})
}
