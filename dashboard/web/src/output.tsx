// What a trial wrote, as it comes. It is text and nothing else: it is never taken for a page.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { detailOf, type WholeTrial } from './api'
import { Card, Choice } from './parts'

type Stream = 'stdout' | 'stderr' | 'trial.log'

const most = 400_000 // letters kept of the end
const piece = 262_144 // bytes asked for at once
const every = 1000

export function Output({ t }: { t: WholeTrial }) {
  const [stream, setStream] = useState<Stream>(t.state === 'FAILED' ? 'stderr' : 'stdout')
  const [attempt, setAttempt] = useState(0)
  const [follow, setFollow] = useState(true)
  const [search, setSearch] = useState('')
  const { text, cut, error } = useLog(t, stream, attempt || t.attempts)
  const box = useRef<HTMLPreElement>(null)
  useEffect(() => { if (follow && box.current) box.current.scrollTop = box.current.scrollHeight }, [text, follow])
  const lines = useMemo(() => plain(text), [text])
  const hits = useMemo(() => search ? lines.filter(l => l.text.toLowerCase().includes(search.toLowerCase())) : null, [lines, search])
  return <Card title="Output" wide more={<>
    <input type="search" value={search} onInput={event => setSearch(event.currentTarget.value)} placeholder="Search" aria-label="Search the output" />
    {t.attempts > 1 && <select aria-label="Attempt" value={attempt} onChange={event => setAttempt(Number(event.currentTarget.value))}>
      <option value="0">newest attempt</option>{t.attemptList.map(a => <option value={a.attempt}>attempt {a.attempt}</option>)}</select>}
    <Choice<Stream> label="Stream" value={stream} onChange={setStream} of={[['stdout', 'stdout'], ['stderr', 'stderr'], ['trial.log', 'trial.log']]} />
    <label class="slide"><input type="checkbox" checked={follow} onChange={event => setFollow(event.currentTarget.checked)} /> follow</label>
  </>}>
    {error && <p class="notice">{error}</p>}
    <pre class="output" ref={box} tabIndex={0} aria-label={`what the trial wrote to ${stream}`} onWheel={event => { if (event.deltaY < 0) setFollow(false) }}>
      {cut && !hits && <span class="faint">the beginning is left out: starter logs {t.experiment} {t.sequence}{'\n'}</span>}
      {(hits ?? lines).map((l, i) => <span key={i}>{l.spans.map(s => s.style ? <span class={s.style}>{s.text}</span> : s.text)}{'\n'}</span>)}
      {!text && !error && <span class="faint">{t.end ? 'nothing' : 'nothing yet'}</span>}
    </pre>
    {hits && <p class="faint" role="status">{hits.length} {hits.length === 1 ? 'line' : 'lines'}</p>}
  </Card>
}

/** useLog reads the end of a log, and then what is added to it. */
function useLog(t: WholeTrial, stream: Stream, attempt: number) {
  const key = `${t.experiment}/${t.sequence}/${attempt}/${stream}`
  const [state, set] = useState({ key, text: '', cut: false, error: '' })
  const over = useRef(false)
  over.current = t.end !== null
  useEffect(() => {
    let next = -piece, timer = 0, ended = false
    const abort = new AbortController()
    const look = async () => {
      const last = over.current // before reading: the last lines are not missed
      let more = false
      try {
        const answer = await fetch(`/api/v1/experiments/${t.experiment}/trials/${t.sequence}/log?stream=${stream}&attempt=${attempt}&from=${next}&limit=${piece}`, { signal: abort.signal })
        if (!answer.ok) throw new Error(await detailOf(answer))
        const text = await answer.text(), from = Number(answer.headers.get('Perennial-From')), first = next < 0
        if (text || !first) next = Number(answer.headers.get('Perennial-Next'))
        more = text.length > piece / 8
        set(now => {
          const whole = (now.key === key ? now.text : '') + text
          return { key, text: whole.slice(-most), cut: (now.key === key && now.cut) || whole.length > most || first && from > 0, error: '' }
        })
        if (last && !text) ended = true
      } catch (error) {
        if (abort.signal.aborted) return
        if (!(error instanceof TypeError)) set(now => ({ ...(now.key === key ? now : { key, text: '', cut: false }), error: (error as Error).message }))
      }
      if (!ended && !abort.signal.aborted) timer = window.setTimeout(look, more ? 50 : document.hidden ? 5 * every : every)
    }
    if (attempt > 0) void look()
    return () => { abort.abort(); window.clearTimeout(timer) }
  }, [key, t.end === null])
  return state.key === key ? state : { text: '', cut: false, error: '' }
}

interface Line { text: string; spans: { text: string; style: string }[] }

const sgr: Record<string, string> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 30: 'black', 31: 'red', 32: 'green', 33: 'yellow', 34: 'blue', 35: 'magenta', 36: 'cyan', 37: 'white' }

/** plain is text as lines with their colours; whatever else would steer a terminal is left
 * out, and of a line that was written over, the last state stays. */
function plain(text: string): Line[] {
  if (!text) return []
  let styles: string[] = []
  return text.replace(/\n$/, '').split('\n').map(raw => {
    const spans: Line['spans'] = []
    const shown = raw.replace(/\r+$/, '')
    for (const part of shown.slice(shown.lastIndexOf('\r') + 1).split(/(\x1b\[[0-9;?]*[ -\/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.)/)) {
      if (!part.startsWith('\x1b')) {
        const clean = part.replace(/[\x00-\x08\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '·')
        if (clean) spans.push({ text: clean, style: styles.join(' ') })
      } else if (/^\x1b\[[0-9;]*m$/.test(part)) {
        for (const code of part.slice(2, -1).split(';')) {
          if (code === '' || code === '0') styles = []
          else if (code === '39') styles = styles.filter(s => !/^ansi-(black|red|green|yellow|blue|magenta|cyan|white)$/.test(s))
          else {
            const name = sgr[code] ?? sgr[String(Number(code) - 60)]
            if (name && !styles.includes('ansi-' + name)) styles = [...styles, 'ansi-' + name]
          }
        }
      }
    }
    return { text: spans.map(s => s.text).join(''), spans }
  })
}
