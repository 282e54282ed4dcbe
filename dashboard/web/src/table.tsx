// All trials of an experiment, however many: only the rows in sight are asked for.
import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Experiment, State, Trial, TrialPage } from './api'
import { read } from './api'
import { cell, flatten, number, short, took } from './format'
import { Pill, states, useNow, word } from './parts'
import { Go, go } from './router'

const rowHeight = 36
const block = 100 // rows asked for at once

interface Wanted { sort: string; reverse: boolean; state: State[]; text: string }

const start: Wanted = { sort: 'trial', reverse: true, state: [], text: '' }

export function TrialTable({ e, version }: { e: Experiment; version: number }) {
  const [wanted, set] = useState<Wanted>(start)
  const [text, setText] = useState('')
  useEffect(() => {
    const timer = window.setTimeout(() => set(w => ({ ...w, text })), 250)
    return () => window.clearTimeout(timer)
  }, [text])
  const toggle = (s: State) => set(w => ({ ...w, state: w.state.includes(s) ? w.state.filter(o => o !== s) : [...w.state, s] }))
  return <section class="card wide" aria-label="Trials">
    <header>
      <input type="search" value={text} onInput={event => setText(event.currentTarget.value)} placeholder="Number, id, parameter or reason" aria-label="Search trials" />
      <div class="choice" role="group" aria-label="States">
        {states.filter(s => e.trials[s] || wanted.state.includes(s)).map(s => <button type="button" key={s} aria-pressed={wanted.state.includes(s)} onClick={() => toggle(s)}>{word(s)} <small>{e.trials[s]}</small></button>)}
      </div>
    </header>
    <Rows e={e} wanted={wanted} version={version} onSort={(sort, first) => set(w => ({ ...w, sort, reverse: w.sort === sort ? !w.reverse : first }))} />
  </section>
}

interface Column { name: string; sort?: string; first?: boolean; cell: (t: Trial, now: number) => ComponentChildren; class?: string }

function Rows({ e, wanted, version, onSort }: { e: Experiment; wanted: Wanted; version: number; onSort: (sort: string, reverse: boolean) => void }) {
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 600 })
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 10)
  const last = Math.ceil((view.top + view.height) / rowHeight) + 10
  const { rows, total, error } = useBlocks(e.id, wanted, version, Math.floor(first / block), Math.floor(last / block))
  const [at, setAt] = useState(0)
  const now = useNow()
  const columns = useColumns(e.id, rows)
  useEffect(() => {
    const element = box.current!
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight })
    const watch = new ResizeObserver(look)
    watch.observe(element)
    element.addEventListener('scroll', look, { passive: true })
    return () => { watch.disconnect(); element.removeEventListener('scroll', look) }
  }, [])
  useEffect(() => { box.current!.scrollTop = 0; setAt(0) }, [wanted])
  const move = (to: number) => {
    const next = Math.max(0, Math.min(total - 1, to)), element = box.current!
    setAt(next)
    const top = next * rowHeight
    if (top < element.scrollTop) element.scrollTop = top
    if (top + 2 * rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + 2 * rowHeight - element.clientHeight
    requestAnimationFrame(() => element.querySelector<HTMLElement>(`[aria-rowindex="${next + 2}"]`)?.focus({ preventScroll: true }))
  }
  const keys = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2)
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: total - 1 }[event.key]
    if (to !== undefined) { event.preventDefault(); move(to) }
    if (event.key === 'Enter' && !(event.target instanceof HTMLAnchorElement) && !(event.target instanceof HTMLButtonElement)) { const t = rows.get(at); if (t) go(`/e/${e.id}/t/${t.sequence}`) }
  }
  const shown: number[] = []
  for (let i = first; i < Math.min(last, total); i++) shown.push(i)
  return <>
    {error && <p class="notice">{error}</p>}
    <div class="table" ref={box} role="table" aria-label={`${total} trials`} aria-rowcount={total + 1} onKeyDown={keys}>
      <div class="thead" role="row" aria-rowindex={1}>
        {columns.map(c => <div key={c.name} role="columnheader" class={c.class} aria-sort={c.sort !== wanted.sort ? undefined : wanted.reverse !== (c.first ?? false) ? 'descending' : 'ascending'}>
          {c.sort ? <button type="button" onClick={() => onSort(c.sort!, c.name === 'Trial')}>{c.name}{c.sort === wanted.sort ? (wanted.reverse ? ' ↑' : ' ↓') : ''}</button> : c.name}</div>)}
      </div>
      <div class="tbody" role="rowgroup" style={{ height: `${total * rowHeight}px` }}>
        {shown.map(i => <Row key={i} i={i} t={rows.get(i)} columns={columns} now={now} e={e} focusable={i === at} onFocus={() => setAt(i)} />)}
      </div>
    </div>
    <p class="faint" role="status">{total} {total === 1 ? 'trial' : 'trials'}{wanted.state.length || wanted.text ? ' found' : ''}</p>
  </>
}

function Row({ i, t, columns, now, e, focusable, onFocus }: { i: number; t?: Trial; columns: Column[]; now: number; e: Experiment; focusable: boolean; onFocus: () => void }) {
  return <div role="row" aria-rowindex={i + 2} tabIndex={focusable ? 0 : -1} class={t && e.best?.sequence === t.sequence ? 'tr winner' : 'tr'} style={{ top: `${i * rowHeight}px` }} onFocus={onFocus}
    onClick={event => { if (t && !(event.target as Element).closest('a') && !getSelection()?.toString()) go(`/e/${e.id}/t/${t.sequence}`) }}>
    {columns.map(c => <div key={c.name} role="cell" class={c.class}>{t ? c.cell(t, now) : '…'}</div>)}
  </div>
}

/** useColumns has one for every parameter and every key of a result that is on show. */
function useColumns(id: string, rows: Map<number, Trial>): Column[] {
  const known = useRef<{ parameters: string[]; metrics: string[] }>({ parameters: [], metrics: [] })
  for (const t of rows.values()) {
    for (const [name] of flatten(t.parameters)) if (!known.current.parameters.includes(name)) known.current.parameters.push(name)
    for (const [name] of reported(t)) if (!known.current.metrics.includes(name)) known.current.metrics.push(name)
  }
  const key = known.current.parameters.join('\n') + '\n\n' + known.current.metrics.join('\n')
  return useMemo(() => [
    { name: 'Trial', sort: 'trial', class: 'n', cell: t => <Go to={`/e/${id}/t/${t.sequence}`} tabIndex={-1}>{t.sequence}</Go> },
    { name: 'Id', class: 'id', cell: t => <code>{t.id}</code> },
    { name: 'State', class: 'state', cell: t => <Pill state={t.state} /> },
    { name: 'Metric', sort: 'metric', class: 'm', cell: t => t.metric !== null ? <b>{number(t.metric)}</b> : t.intermediate ? <span class="faint">{number(t.intermediate.metric)} <small>step {t.intermediate.step}</small></span> : '–' },
    ...known.current.parameters.map((name): Column => ({ name: short(name), sort: name, class: 'p', cell: t => { const v = cell(flatten(t.parameters).find(([n]) => n === name)?.[1]); return <span title={v}>{v}</span> } })),
    ...known.current.metrics.map((name): Column => ({ name: `↳ ${name}`, class: 'p', cell: t => cell(reported(t).find(([n]) => n === name)?.[1] as never) })),
    { name: 'Took', sort: 'duration', class: 'd', cell: (t, now) => took(t.start, t.end, now) },
    { name: 'Try', class: 'a', cell: t => t.attempts > 1 ? t.attempts : '' },
    { name: 'Where', class: 'h', cell: t => <span title={t.host}>{t.host || '–'}</span> },
    { name: 'Why', class: 'w', cell: t => <span title={t.reason.text}>{t.reason.text.split('\n')[0]}</span> },
  ] as Column[], [key])
}

/** reported are the numbers beside the default one of a result that is an object. */
function reported(t: Trial): [string, unknown][] {
  if (!t.final?.trimStart().startsWith('{')) return []
  try {
    return flatten(JSON.parse(t.final)).filter(([name, v]) => name !== 'default' && typeof v === 'number')
  } catch { return [] } // Python's NaN
}

/** useBlocks asks for the rows in sight, and again when something has changed. */
function useBlocks(id: string, wanted: Wanted, version: number, from: number, to: number) {
  const key = JSON.stringify([id, wanted])
  const [state, set] = useState<{ key: string; rows: Map<number, Trial>; total: number; error?: string }>({ key, rows: new Map(), total: 0 })
  const loaded = useRef<{ key: string; blocks: Map<number, number>; end: number; took: number }>({ key, blocks: new Map(), end: 0, took: 0 })
  useEffect(() => {
    if (loaded.current.key !== key) loaded.current = { key, blocks: new Map(), end: 0, took: 0 }
    const memory = loaded.current, abort = new AbortController()
    const missing: number[] = [], stale: number[] = []
    for (let b = from; b <= to; b++) (memory.blocks.has(b) ? memory.blocks.get(b) !== version ? stale : [] : missing).push(b)
    const ask = async (blocks: number[]) => {
      for (const b of blocks) {
        const begun = performance.now()
        try {
          const query = new URLSearchParams({ sort: wanted.sort, reverse: String(wanted.reverse), limit: String(block), offset: String(b * block) })
          if (wanted.text) query.set('text', wanted.text)
          if (wanted.state.length) query.set('state', wanted.state.join(','))
          const page = await read<TrialPage>(`/experiments/${id}/trials?${query}`, abort.signal)
          memory.blocks.set(b, version)
          set(now => {
            const rows = new Map(now.key === key ? now.rows : [])
            for (let i = 0; i < block; i++) rows.delete(b * block + i)
            page.trials.forEach((t, i) => rows.set(b * block + i, t))
            return { key, rows, total: page.total }
          })
        } catch (error) {
          if (!abort.signal.aborted && error instanceof Error && error.name !== 'TypeError') set(now => ({ ...now, error: error.message }))
          return
        }
        memory.end = performance.now()
        memory.took = memory.end - begun
      }
    }
    void ask(missing)
    const timer = window.setTimeout(() => void ask(stale), stale.length ? Math.max(0, memory.end + 9 * memory.took - performance.now()) : 0)
    return () => { window.clearTimeout(timer); abort.abort() }
  }, [key, version, from, to])
  return state.key === key ? state : { ...state, rows: new Map<number, Trial>(), total: state.total }
}
