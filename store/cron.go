package store

import "context"

// keptRuns is how many runs of each job are remembered.
const keptRuns = 100

// A CronRun is one run of a cron job. Times are unix ms; Error is empty where it
// went well.
type CronRun struct {
	Job        string
	Start, End uint64
	Note       string
	Error      string
}

// CronRuns returns the last runs of a job, the newest first, at most limit.
func (r *ReadTx) CronRuns(ctx context.Context, job string, limit int) ([]CronRun, error) {
	return list(ctx, r, func(s scanner) (c CronRun, err error) {
		err = s.Scan(&c.Job, num(&c.Start), num(&c.End), &c.Note, &c.Error)
		return c, err
	}, `SELECT job, started_at, ended_at, note, error FROM cron_run WHERE job = ? ORDER BY id DESC LIMIT ?`, job, limit)
}

// AddCronRun remembers a run and forgets the oldest of the job beyond 100.
func (tx *Tx) AddCronRun(_ context.Context, c CronRun) error {
	_, err := tx.exec(`INSERT INTO cron_run (job, started_at, ended_at, note, error) VALUES (?, ?, ?, ?, ?)`,
		c.Job, c.Start, c.End, c.Note, c.Error)
	if err != nil {
		return err
	}
	_, err = tx.exec(`DELETE FROM cron_run WHERE job = ? AND id <=
		(SELECT id FROM cron_run WHERE job = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`, c.Job, c.Job, keptRuns)
	return err
}
