package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"karatum/app/load"
	"karatum/flight"
	"karatum/store"
)

// A pageTarget is one kind of page with the addresses to ask, many where pages of
// the kind show different things.
type pageTarget struct {
	Name  string
	Route string // of the server's table, "" for more of one that another target has
	Asks  []load.Ask
}

// drawn is how many different things of one kind are asked for.
const drawn = 200

// A surveyor collects what there is to ask for from a database.
type surveyor struct {
	st      *store.Store
	rng     *rand.Rand
	targets []pageTarget
	agents  []store.Agent
}

// survey returns targets for the pages of a database that [fillPages] made.
func survey(ctx context.Context, st *store.Store) ([]pageTarget, error) {
	s := &surveyor{st: st, rng: rand.New(rand.NewPCG(3, 4))}
	for _, part := range []func(context.Context) error{s.lists, s.batches, s.people, s.steps} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{"/", "/verify", "/verify.html", "/node", "/about", "/v1/status", "/metrics", "/readyz"} {
		s.add(path, path, path)
	}
	s.search("nothing", "/search", "karatum")
	s.search("miss", "", fillHash(s.rng).String())
	return s.targets, nil
}

func (s *surveyor) add(name, route string, paths ...string) {
	t := pageTarget{Name: name, Route: route}
	for _, p := range paths {
		t.Asks = append(t.Asks, load.Ask{Path: p, Status: http.StatusOK})
	}
	s.targets = append(s.targets, t)
}

// search adds a search for each text; a hit may lead to the one thing found.
func (s *surveyor) search(name, route string, texts ...string) {
	t := pageTarget{Name: "/search, " + name, Route: route}
	for _, q := range texts {
		a := load.Ask{Path: "/search?q=" + url.QueryEscape(q), Status: http.StatusOK}
		if strings.HasPrefix(name, "hit") {
			a.Status = 0
		}
		t.Asks = append(t.Asks, a)
	}
	s.targets = append(s.targets, t)
}

// list adds the first page of a list, pages from its middle and the last one.
func (s *surveyor) list(path, route string, cursors []string) {
	s.add(path+", first", route, path)
	if len(cursors) == 0 {
		return
	}
	at := func(c string) string { return path + "?cursor=" + c }
	middle := []string{}
	for _, c := range sample(s.rng, cursors, drawn) {
		middle = append(middle, at(c))
	}
	s.add(path+", middle", "", middle...)
	s.add(path+", last", "", at(cursors[len(cursors)-1]))
}

// sample draws at most n of the values, in the order of their places.
func sample[T any](rng *rand.Rand, from []T, n int) []T {
	places := rng.Perm(len(from))[:min(n, len(from))]
	slices.Sort(places)
	out := make([]T, len(places))
	for i, p := range places {
		out[i] = from[p]
	}
	return out
}

// walk reads a list to its end and returns the cursors of all parts but the first.
func walk[T any](ctx context.Context, st *store.Store, read func(*store.ReadTx, store.Page) ([]T, string, error), each func(T)) (cursors []string, err error) {
	p := store.Page{Limit: store.MaxPage}
	for {
		var rows []T
		err := st.View(ctx, func(tx *store.ReadTx) (err error) {
			rows, p.Cursor, err = read(tx, p)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			each(r)
		}
		if p.Cursor == "" {
			return cursors, nil
		}
		cursors = append(cursors, p.Cursor)
	}
}

// lists adds the lists of the whole node and the things in them.
func (s *surveyor) lists(ctx context.Context) error {
	cursors, err := walk(ctx, s.st, func(tx *store.ReadTx, p store.Page) ([]store.Agent, string, error) { return tx.Agents(ctx, p) },
		func(a store.Agent) { s.agents = append(s.agents, a) })
	if err != nil {
		return err
	}
	s.list("/agents", "/agents", cursors)
	var epochs, roots, numbers, conflicts []string
	cursors, err = walk(ctx, s.st, func(tx *store.ReadTx, p store.Page) ([]store.Epoch, string, error) { return tx.Epochs(ctx, p) }, func(e store.Epoch) {
		epochs = append(epochs, fmt.Sprintf("/epochs/%d", e.ID))
		roots, numbers = append(roots, e.Root.String()), append(numbers, fmt.Sprint(e.ID))
	})
	if err != nil {
		return err
	}
	s.list("/epochs", "/epochs", cursors)
	s.add("/epochs/N", "/epochs/:root", sample(s.rng, epochs, drawn)...)
	s.search("hit epoch root", "", sample(s.rng, roots, drawn)...)
	s.search("hit epoch number", "", sample(s.rng, numbers, drawn)...)
	cursors, err = walk(ctx, s.st, func(tx *store.ReadTx, p store.Page) ([]store.Evidence, string, error) {
		return tx.EvidenceList(ctx, nil, p)
	},
		func(e store.Evidence) { conflicts = append(conflicts, fmt.Sprintf("/conflicts/%d", e.ID)) })
	if err != nil {
		return err
	}
	s.list("/conflicts", "/conflicts", cursors)
	s.add("/conflicts/N", "/conflicts/:id", sample(s.rng, conflicts, drawn)...)
	return nil
}

// batches adds batches from all over the database.
func (s *surveyor) batches(ctx context.Context) error {
	var pages, ids []string
	err := s.st.View(ctx, func(tx *store.ReadTx) error {
		c, err := tx.Counts(ctx)
		if err != nil {
			return err
		}
		for range min(drawn, c.Batches) {
			b, err := tx.BatchAt(ctx, 1+s.rng.Uint64N(c.Batches))
			if err != nil {
				return err
			}
			pages, ids = append(pages, "/batches/"+b.ID.String()), append(ids, b.ID.String())
		}
		return nil
	})
	s.add("/batches/ID", "/batches/:batchId", pages...)
	s.search("hit batch", "", ids...)
	return err
}

// people adds the agents with the most and the fewest batches, with the most
// streams, and others, each with a stream.
func (s *surveyor) people(ctx context.Context) error {
	by := func(n func(store.Agent) uint64) store.Agent {
		return slices.MaxFunc(s.agents, func(a, b store.Agent) int { return cmp.Compare(n(a), n(b)) })
	}
	most := by(func(a store.Agent) uint64 { return a.Batches })
	wide := by(func(a store.Agent) uint64 { return a.Streams })
	var tiny, badges, addresses []string
	for _, a := range sample(s.rng, s.agents, drawn) {
		page := "/agents/" + a.Address.String()
		badges, addresses = append(badges, page+"/badge.svg"), append(addresses, a.Address.String())
		if a.Batches < 20 {
			tiny = append(tiny, page)
		}
	}
	s.add(fmt.Sprintf("/agents/A of %d batches", most.Batches), "/agents/:address", "/agents/"+most.Address.String())
	s.add(fmt.Sprintf("/agents/A of %d streams", wide.Streams), "", "/agents/"+wide.Address.String())
	s.add("/agents/A of few batches", "", tiny...)
	s.add("/agents/A/badge.svg", "/agents/:address/badge.svg", badges...)
	s.search("hit agent", "", addresses...)
	if err := s.streams(ctx, most.Address, true); err != nil {
		return err
	}
	for _, a := range sample(s.rng, s.agents, 30) {
		if err := s.streams(ctx, a.Address, false); err != nil {
			return err
		}
	}
	return s.torn(ctx)
}

// streams adds the longest stream of an agent, all of its parts where parts is
// set.
func (s *surveyor) streams(ctx context.Context, agent flight.Address, parts bool) error {
	var longest store.Stream
	_, err := walk(ctx, s.st, func(tx *store.ReadTx, p store.Page) ([]store.Stream, string, error) { return tx.Streams(ctx, agent, p) },
		func(st store.Stream) {
			if st.Batches > longest.Batches {
				longest = st
			}
		})
	if err != nil {
		return err
	}
	path := "/agents/" + agent.String() + "/" + url.PathEscape(longest.Name)
	if !parts {
		const name = "/agents/A/STREAM of others"
		if i := slices.IndexFunc(s.targets, func(t pageTarget) bool { return t.Name == name }); i >= 0 {
			s.targets[i].Asks = append(s.targets[i].Asks, load.Ask{Path: path, Status: http.StatusOK})
			return nil
		}
		s.add(name, "", path)
		return nil
	}
	cursors, err := walk(ctx, s.st, func(tx *store.ReadTx, p store.Page) ([]store.Batch, string, error) {
		return tx.StreamBatches(ctx, agent, longest.Name, p)
	}, func(store.Batch) {})
	if err != nil {
		return err
	}
	at := len(s.targets)
	s.list(path, "/agents/:address/:stream", cursors)
	for i := range s.targets[at:] {
		t := &s.targets[at+i]
		t.Name = fmt.Sprintf("/agents/A/STREAM of %d batches%s", longest.Batches, strings.TrimPrefix(t.Name, path))
	}
	s.add("/agents/A/streams?called=STREAM", "/agents/:address/streams", "/agents/"+agent.String()+"/streams?called="+url.QueryEscape(longest.Name))
	return nil
}

// torn adds the stream with the most gaps.
func (s *surveyor) torn(ctx context.Context) error {
	var worst store.Stream
	busiest := slices.SortedFunc(slices.Values(s.agents), func(a, b store.Agent) int { return cmp.Compare(b.Batches, a.Batches) })
	for _, a := range busiest[:min(len(busiest), 30)] {
		_, err := walk(ctx, s.st, func(tx *store.ReadTx, p store.Page) ([]store.Stream, string, error) {
			return tx.Streams(ctx, a.Address, p)
		},
			func(st store.Stream) {
				if st.Missing() > worst.Missing() || worst.Name == "" {
					worst = st
				}
			})
		if err != nil {
			return err
		}
	}
	s.add(fmt.Sprintf("/agents/A/STREAM lacking %d batches", worst.Missing()), "",
		"/agents/"+worst.Agent.String()+"/"+url.PathEscape(worst.Name))
	return nil
}

// steps adds opened steps of many agents, with a replay where there is one.
func (s *surveyor) steps(ctx context.Context) error {
	var pages, hashes []string
	for _, a := range s.agents {
		if len(pages) >= 4*drawn {
			break
		}
		if a.Opened == 0 {
			continue
		}
		err := s.st.View(ctx, func(tx *store.ReadTx) error {
			rows, _, err := tx.Steps(ctx, a.Address, "", store.Page{Limit: 20})
			for _, r := range rows {
				pages = append(pages, fmt.Sprintf("/agents/%s/%s/%d", r.Agent, url.PathEscape(r.Stream), r.Seq))
				hashes = append(hashes, r.Hash.String())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	s.add("/agents/A/STREAM/SEQ", "/agents/:address/:stream/:seq", sample(s.rng, pages, drawn)...)
	s.search("hit step", "", sample(s.rng, hashes, drawn)...)
	return nil
}

// extend adds the pages of the server's own description that no target has yet,
// and returns those that it cannot ask for without knowing what to name.
func extend(targets []pageTarget, openapi []byte) (_ []pageTarget, unknown []string, err error) {
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(openapi, &doc); err != nil {
		return nil, nil, err
	}
	known := map[string]bool{"/events/stream": true}
	for _, t := range targets {
		known[t.Route] = true
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		route := strings.NewReplacer("{", ":", "}", "").Replace(path)
		if _, get := doc.Paths[path]["get"]; !get || known[route] || servesFiles(route) {
			continue
		}
		if strings.ContainsAny(route, ":*") {
			unknown = append(unknown, route)
			continue
		}
		targets = append(targets, pageTarget{Name: route, Route: route, Asks: []load.Ask{{Path: route, Status: http.StatusOK}}})
	}
	return targets, unknown, nil
}

// discover looks for the unknown routes in what the known pages link to, and returns
// those that none of them links to.
func discover(ctx context.Context, base string, targets []pageTarget, unknown []string) (_ []pageTarget, left []string, err error) {
	links := map[string]bool{}
	for _, t := range targets {
		if len(unknown) == 0 || len(t.Asks) == 0 || t.Asks[0].Status != http.StatusOK {
			continue
		}
		found, err := load.Links(ctx, base, t.Asks[0].Path)
		if err != nil {
			return nil, nil, err
		}
		for _, l := range found {
			links[l] = true
		}
	}
	for _, route := range unknown {
		t := pageTarget{Name: route, Route: route}
		for _, l := range slices.Sorted(maps.Keys(links)) {
			if matches(route, l) && len(t.Asks) < drawn {
				t.Asks = append(t.Asks, load.Ask{Path: l, Status: http.StatusOK})
			}
		}
		if len(t.Asks) == 0 {
			left = append(left, route)
			continue
		}
		targets = append(targets, t)
	}
	return targets, left, nil
}

// matches reports whether a path is one of a route.
func matches(route, link string) bool {
	parts, want := strings.Split(strings.TrimPrefix(link, "/"), "/"), strings.Split(strings.TrimPrefix(route, "/"), "/")
	for i, w := range want {
		if i >= len(parts) || parts[i] == "" || !strings.ContainsAny(w, ":*") && w != parts[i] {
			return false
		}
	}
	return len(parts) == len(want) && !strings.ContainsAny(link, "?")
}

// servesFiles reports whether a path is none of the pages: the API, files, and what
// machines ask for.
func servesFiles(route string) bool {
	for _, p := range []string{"/v1/", "/static/", "/sdk/", "/testvectors/", "/healthz"} {
		if strings.HasPrefix(route, p) {
			return true
		}
	}
	return false
}
