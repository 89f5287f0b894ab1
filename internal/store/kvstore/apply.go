package kvstore

// apply brings one change into the mirror and to the observers, then releases the
// callers that wait for it.
func (s *contents) apply(c change) {
	s.remember(c)
	s.own.observe(c)
	switch {
	case c.skip:
		s.mirror.observe(c.rev)
	case c.corrupt:
		s.alarm(c)
		s.mirror.observe(c.rev)
	case c.put != nil:
		s.applyPut(c)
	default:
		s.metrics.healed(c.key)
		if s.mirror.remove(c.key, c.rev) != nil {
			s.observeDelete(c.key, c.rev)
		}
	}
	s.progress.reach(c.rev)
}

func (s *contents) applyPut(c change) {
	s.metrics.healed(c.key)
	// A key that was deleted and made again while the bucket was not followed has another
	// object: observers and watches of the first have to see its end.
	if prev := s.mirror.get(c.key); prev != nil && prev.uid != c.put.uid && prev.uid != "" && c.put.uid != "" {
		s.mirror.remove(c.key, c.rev-1)
		s.observeDelete(c.key, c.rev-1)
	}
	s.mirror.put(c.put)
	s.expireLater(c.put)
	for _, o := range s.observers {
		o.Put(c.put.Item)
	}
}

func (s *contents) observeDelete(key string, rev uint64) {
	for _, o := range s.observers {
		o.Delete(key, rev)
	}
}

// reach moves on to a revision that the server has and will not send.
func (s *contents) reach(rev uint64) {
	s.mirror.observe(rev)
	s.progress.reach(rev)
}

// alarm reports a value that is not what was written.
func (s *contents) alarm(c change) {
	s.metrics.damaged(c.key)
	s.logDamaged(c)
}

func (s *contents) logDamaged(c change) {
	s.opts.Logger.Error("a stored object is damaged: its checksum does not agree. Apply it again, or restore it from a "+
		"backup",
		"object", s.kind.Resource+"/"+c.key, "revision", c.rev)
}

// count returns the number of objects.
func (s *contents) count() int64 {
	n, _ := s.mirror.stats()
	return n
}
