package app

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"karatum/chain/replay"
	"karatum/flight"
	"karatum/store"
)

// ErrUnknownReplay: there is no replay of that number.
var ErrUnknownReplay = &Error{Code: "UNKNOWN_REPLAY", Status: http.StatusNotFound, Message: "there is no such replay"}

// replayOutline is what is kept of a finished replay for lists, in the members of its
// result.
type replayOutline struct {
	Reproduced  bool            `json:"reproduced"`
	Verdict     *flight.Verdict `json:"verdict"`
	ForkBlock   uint64          `json:"forkBlock"`
	BlockHash   flight.Hash     `json:"blockHash"`
	PrefixCount int             `json:"prefixCount"`
	Differences []string        `json:"differences"`
	State       string          `json:"state"`
}

// PrefixNone is the prefix of a replay without the block's earlier transactions.
const PrefixNone = string(replay.None)

// What a result rests on.
const (
	ReplayProved   = "proved"     // all of the state is proved against the block
	ReplayUnproved = "unverified" // some of it is as told by the RPC
)

// Replays lists the replays in a state, or all where it is empty, the last queued
// first.
func (a *App) Replays(ctx context.Context, state string, p Page) (List[ReplaySummary], error) {
	known := []store.ReplayState{"", store.ReplayQueued, store.ReplayRunning, store.ReplayDone, store.ReplayFailed, store.ReplayCancelled}
	if !slices.Contains(known, store.ReplayState(state)) {
		return List[ReplaySummary]{}, badRequest("state", "state must be queued, running, done, failed or cancelled")
	}
	l := List[ReplaySummary]{Items: []ReplaySummary{}}
	err := a.view(ctx, nil, func(tx *store.ReadTx) error {
		rows, next, err := tx.Replays(ctx, store.ReplayState(state), page(p))
		if err != nil {
			return err
		}
		l.Next = next
		for i := range rows {
			s, err := tx.Step(ctx, rows[i].Step)
			if err != nil {
				return err
			}
			v, err := replaySummary(&rows[i], &s)
			if err != nil {
				return err
			}
			l.Items = append(l.Items, v)
		}
		return nil
	})
	return l, err
}

// Replay returns all of one replay, for the step that asked first, or UNKNOWN_REPLAY.
func (a *App) Replay(ctx context.Context, id uint64) (ReplayDetail, error) {
	var v ReplayDetail
	err := a.view(ctx, ErrUnknownReplay, func(tx *store.ReadTx) error {
		row, err := tx.ReplayByID(ctx, id)
		if err != nil {
			return err
		}
		s, err := tx.Step(ctx, row.Step)
		if err != nil {
			return fmt.Errorf("step of replay %d: %w", id, err)
		}
		if v.ReplaySummary, err = replaySummary(&row, &s); err != nil {
			return err
		}
		v.Result, v.Chain, v.TimeoutMs = json.RawMessage("null"), chainVerdict(&s), uint64(a.cfg.ReplayTimeout.Milliseconds())
		if row.State != store.ReplayDone {
			return nil
		}
		return v.fill(&row, &s)
	})
	return v, err
}

// fill adds what was replayed.
func (v *ReplayDetail) fill(row *store.Replay, s *store.Step) error {
	var doc replayDoc
	if err := json.Unmarshal(row.Result, &doc); err != nil {
		return fmt.Errorf("stored replay %d: %w", row.ID, err)
	}
	var err error
	if v.Result, err = replayResult(row.Result, s); err != nil {
		return err
	}
	more := struct {
		*replayOutline
		ConfirmedBy, Notes []string
		Rules              string
	}{replayOutline: &replayOutline{}}
	if err := json.Unmarshal(v.Result, &more); err != nil {
		return fmt.Errorf("stored replay %d: %w", row.ID, err)
	}
	v.Verdict, v.Differences = more.Verdict, more.Differences
	v.ConfirmedBy, v.Notes, v.Rules = more.ConfirmedBy, more.Notes, more.Rules
	v.Replayed = &ReceiptView{Success: doc.Outcome.Success, GasUsed: doc.GasUsed, Logs: logViews(doc.Outcome.Logs)}
	if v.Original = doc.Original; v.Original != nil && v.Reproduced != nil && *v.Reproduced {
		v.Original.Logs = v.Replayed.Logs
	}
	return nil
}

func replaySummary(row *store.Replay, s *store.Step) (ReplaySummary, error) {
	v := ReplaySummary{
		ID: row.ID, State: string(row.State), Prefix: row.Prefix, StepHash: row.Step, Agent: s.Agent, Stream: s.Stream, Seq: s.Seq,
		ChainID: row.ChainID, TxHash: row.TxHash, Differences: []string{},
		Attempts: row.Attempts, At: row.At, StartedAt: row.StartedAt, DoneAt: row.DoneAt,
	}
	if s.BlockNumber != 0 {
		v.BlockNumber, v.BlockHash = &s.BlockNumber, s.BlockHash
	}
	switch row.State {
	case store.ReplayDone:
		var o replayOutline
		if err := json.Unmarshal(row.Summary, &o); err != nil {
			return v, fmt.Errorf("stored replay %d: %w", row.ID, err)
		}
		block := o.ForkBlock + 1
		v.BlockNumber, v.BlockHash, v.ForkBlock = &block, &o.BlockHash, &o.ForkBlock
		v.Verdict, v.Reproduced, v.Differences, v.PrefixCount = o.Verdict, &o.Reproduced, append(v.Differences, o.Differences...), &o.PrefixCount
		if v.StateBasis, v.Proof = o.State, ReplayUnproved; strings.HasPrefix(o.State, "proved ") {
			v.Proof = ReplayProved
		}
	case store.ReplayFailed:
		v.Failure = &ReplayFailure{}
		if err := json.Unmarshal(row.Summary, v.Failure); err != nil {
			return v, fmt.Errorf("stored replay %d: %w", row.ID, err)
		}
		v.Failure.Words = replayWords(v.Failure)
		if v.Failure.Code == replay.CodePruned && s.BlockNumber > 0 {
			needs := s.BlockNumber - 1
			v.Failure.NeedsBlock = &needs
		}
	}
	return v, nil
}

func chainVerdict(s *store.Step) VerdictView {
	v := VerdictView{Verdict: s.Verdict, ChainID: s.ChainID, TxHash: s.TxHash, Final: s.Final, At: s.CheckedAt}
	if s.BlockNumber != 0 {
		v.BlockNumber = &s.BlockNumber
	}
	return v
}

func logViews(logs []flight.Log) []LogView {
	out := make([]LogView, len(logs))
	for i, l := range logs {
		out[i] = LogView{Address: l.Address, Topics: l.Topics, Data: "0x" + hex.EncodeToString(l.Data)}
		if l.Topics == nil {
			out[i].Topics = []flight.Hash{}
		}
	}
	return out
}
