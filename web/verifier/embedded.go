package verifier

import (
	"context"
	"encoding/json"
	"io"

	"github.com/a-h/templ"
)

// embedded is the document as data in the page. Marshalling escapes <, > and &, so
// no text in it ends the element. The error names a document that is not JSON.
func embedded(document json.RawMessage) templ.Component {
	return templ.ComponentFunc(func(_ context.Context, w io.Writer) error {
		text, err := json.Marshal(document)
		if err != nil {
			return err
		}
		_, err = io.WriteString(w, `<script type="application/json" id="record">`+string(text)+`</script>`)
		return err
	})
}
