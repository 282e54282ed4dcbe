// The dashboard: pages that show experiments and stay true while one looks at them.
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import './style.css'
import type { Link } from './live'
import { ComparePage } from './compare'
import { Experiments } from './experiments'
import { ExperimentPage } from './experiment'
import { GPUsPage } from './gpus'
import { TrialPage } from './trial'
import { Go, usePath } from './router'
import { Choice } from './parts'
import { leaf, still } from './still'
import { useTheme, type Theme } from './theme'

/** Shell is what a page tells of itself to what stands around it. */
export interface Shell {
  dark: boolean
  /** tell says how the page stands: where it is, what its title is, whether it hears the host. */
  tell: (about: { link: Link; title: string }) => void
}

function App() {
  const theme = useTheme()
  const { path } = usePath()
  const [about, tell] = useState<{ link: Link; title: string }>({ link: 'connecting', title: '' })
  useEffect(() => { document.title = about.title ? `${about.title} · Perennial` : 'Perennial' }, [about.title])
  // A link works once; its token has no place in the history.
  useEffect(() => { if (new URLSearchParams(location.search).has('t')) history.replaceState(null, '', location.pathname) }, [])
  const shell: Shell = { dark: theme.dark, tell: next => tell(now => now.link === next.link && now.title === next.title ? now : next) }
  return <>
    <a class="skip" href="#main">Skip to the content</a>
    <nav aria-label="Pages">
      <Go to="/" class="brand"><img src={leaf} alt="" width="24" height="24" /><b>Perennial</b></Go>
      {!still && <>
        <Go to="/" aria-current={path === '/' ? 'page' : undefined}>Experiments</Go>
        <Go to="/gpus" aria-current={path === '/gpus' ? 'page' : undefined}>GPUs</Go>
      </>}
      <span class="grow" />
      <Beat link={about.link} />
      <Choice<Theme> label="Colours" value={theme.chosen} onChange={theme.choose} of={[['light', 'Light'], ['system', 'Auto'], ['dark', 'Dark']]} />
    </nav>
    <Notice link={about.link} />
    <main id="main" tabIndex={-1}><Page path={path} shell={shell} key={path.split('/').slice(0, 3).join('/')} /></main>
  </>
}

function Page({ path, shell }: { path: string; shell: Shell }) {
  const trial = /^\/e\/([^/]+)\/t\/([^/]+)$/.exec(path)
  if (trial) return <TrialPage experiment={trial[1]} trial={trial[2]} shell={shell} />
  const experiment = /^\/e\/([^/]+)(?:\/(analysis|curves|trials|setup))?$/.exec(path)
  if (experiment) return <ExperimentPage id={experiment[1]} tab={experiment[2] ?? 'overview'} shell={shell} />
  if (path === '/compare') return <ComparePage shell={shell} />
  if (path === '/gpus') return <GPUsPage shell={shell} />
  if (path === '/') return <Experiments shell={shell} />
  return <div class="empty"><h1>There is no such page</h1><p><Go to="/">All experiments</Go></p></div>
}

function Beat({ link }: { link: Link }) {
  if (still) return <span class="beat">as of {new Date(still.taken).toLocaleString()}</span>
  const text = { still: '', connecting: 'connecting', live: 'live', gone: 'host gone', closed: 'closed' }[link]
  return <span class={`beat ${link}`} title={`this page is ${text}`}><i aria-hidden="true" />{text}</span>
}

function Notice({ link }: { link: Link }) {
  return <div role="status" aria-live="polite">
    {link === 'gone' && <p class="notice">The host does not answer. Trials go on without it; this page shows what was known last, and goes on when a host is back.
      Any command starts one: <code>starter ls</code></p>}
    {link === 'closed' && <p class="notice">This page is closed to this browser. <code>starter dashboard</code> prints a fresh link.</p>}
  </div>
}

render(<App />, document.getElementById('app')!)
