// Package webui tries what Temporal's own tools do with experiments and trials:
// signals, Cancel, queries and lists, by a client, by the temporal command line
// and by a real browser on the Web UI.
package webui

import (
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may take on a busy machine.
const patience = 90 * time.Second

// BrowserProgram is the path of an installed Chromium, empty where there is none.
func BrowserProgram() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Browser is one window of a headless Chromium with its own cookies.
type Browser struct {
	ctx   context.Context
	close []context.CancelFunc
}

// OpenBrowser starts the browser. The caller closes it.
func OpenBrowser(ctx context.Context, width, height int) *Browser {
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	for _, flag := range []string{"no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	options = append(options, chromedp.WindowSize(width, height), chromedp.ExecPath(BrowserProgram()))
	allocated, end := chromedp.NewExecAllocator(ctx, options...)
	window, shut := chromedp.NewContext(allocated)
	return &Browser{ctx: window, close: []context.CancelFunc{shut, end}}
}

// Close ends the browser.
func (b *Browser) Close() {
	for _, end := range b.close {
		end()
	}
}

// Open opens an address and waits until every one of the texts can be read on
// its page. Its error tells what the page said instead.
func (b *Browser) Open(address string, texts ...string) error {
	if _, err := chromedp.Run(b.ctx, chromedp.Navigate(address)); err != nil {
		return fmt.Errorf("open %s: %w", strings.SplitN(address, "?", 2)[0], err)
	}
	return b.Await(texts...)
}

// Await waits until every one of the texts can be read on the page.
func (b *Browser) Await(texts ...string) error {
	deadline := time.Now().Add(patience)
	for {
		page, err := b.Text()
		missing := lacking(page, texts)
		if err == nil && missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the page lacks %q (%v); it says:\n%s", missing, err, page)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func lacking(page string, texts []string) string {
	for _, text := range texts {
		if !strings.Contains(page, text) {
			return text
		}
	}
	return ""
}

// Text is what a person can read on the page; what stands in frames, as
// summaries and details do, comes last.
func (b *Browser) Text() (string, error) {
	const script = `!document.body ? '' : document.body.innerText + '\n' +
		[...document.querySelectorAll('iframe')].map(frame => frame.contentDocument?.body?.innerText ?? '').join('\n')`
	return chromedp.Run(b.ctx, chromedp.Evaluate[string](script))
}

// Click clicks the first element whose own text is exactly this.
func (b *Browser) Click(text string) error {
	script := fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll('a, button, [role=tab], [role=menuitem], summary')].find(e => e.innerText.trim() === %q);
		if (found) found.click();
		return !!found;
	})()`, text)
	clicked, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script))
	if err == nil && !clicked {
		err = fmt.Errorf("nothing on the page is called %q", text)
	}
	return err
}

// Run runs a script on the page and returns what it comes to, as text.
func (b *Browser) Run(script string) (string, error) {
	return chromedp.Run(b.ctx, chromedp.Evaluate[string]("String("+script+")"))
}

// Show shows a document of the caller's own.
func (b *Browser) Show(html string) error {
	return b.Open("data:text/html;base64," + base64.StdEncoding.EncodeToString([]byte(html)))
}

// Asked keeps the address of every request that the browser makes from now on, and returns
// what gives those so far.
func (b *Browser) Asked() (func() []string, error) {
	var mu sync.Mutex
	var all []string
	err := chromedp.Listen(b.ctx, func(event any) {
		if sent, ok := event.(*network.EventRequestWillBeSent); ok {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, sent.Request.URL)
		}
	})
	if err != nil {
		return nil, err
	}
	_, err = chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, t, network.Enable, network.EnableParams{})
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}, err
}

// Picture is the window as PNG.
func (b *Browser) Picture() ([]byte, error) {
	return chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
}
