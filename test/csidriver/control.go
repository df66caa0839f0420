package main

import (
	"encoding/json"
	"net/http"
	"slices"
)

// control is what tests ask and tell the driver, by HTTP.
func control(s *store, st *stage) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /volumes", func(w http.ResponseWriter, r *http.Request) {
		namespace := r.FormValue("namespace")
		answer(w, slices.DeleteFunc(s.list(), func(v Volume) bool { return namespace != "" && v.Namespace != namespace }))
	})
	mux.HandleFunc("GET /calls", func(w http.ResponseWriter, r *http.Request) { answer(w, st.listCalls(r.FormValue("namespace"))) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) { answer(w, st.listFaults()) })
	mux.HandleFunc("DELETE /faults", func(_ http.ResponseWriter, r *http.Request) { st.remove(r.FormValue("namespace")) })
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		var f Fault
		body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		body.DisallowUnknownFields()
		err := body.Decode(&f)
		if err == nil {
			err = f.check()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		st.add(&f)
	})
	return mux
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // who asks may be gone
}
