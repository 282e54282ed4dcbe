// What people can ask for here: the same commands as in a terminal, which are shown.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { detailOf, type Experiment, type Json, type Listed, type WholeTrial } from './api'
import { still } from './still'
import { Copy } from './parts'

/** Wish is something to ask for, by a key that makes it the same wish when it is sent again. */
interface Wish { path: string; body: Json; key: string }

async function send(wish: Wish): Promise<void> {
  const answer = await fetch('/api/v1' + wish.path, {
    method: 'POST', body: JSON.stringify(wish.body), headers: { 'Content-Type': 'application/json', 'Idempotency-Key': wish.key } })
  if (!answer.ok) throw new Error(await detailOf(answer))
}

const key = () => crypto.randomUUID()

/** Ask asks before something is done, and tells what does the same in a terminal. */
function Ask({ title, verb, grave, commands, wishes, onClose, children }: {
  title: string; verb: string; grave?: boolean; commands: string[]; wishes: () => Wish[]; onClose: () => void; children?: ComponentChildren
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  const made = useRef(new Map<string, string>()) // keys of what was sent, by what it says
  const [error, setError] = useState('')
  const [busy, setBusy] = useState(false)
  useEffect(() => { dialog.current!.showModal() }, [])
  const go = async () => {
    setBusy(true)
    setError('')
    try {
      for (const wish of wishes()) {
        const text = wish.path + JSON.stringify(wish.body)
        if (!made.current.has(text)) made.current.set(text, wish.key)
        await send({ ...wish, key: made.current.get(text)! })
      }
      onClose()
    } catch (error) {
      setError(error instanceof TypeError ? 'The host does not answer; try again, it is done once.' : (error as Error).message)
    }
    setBusy(false)
  }
  return <dialog ref={dialog} onClose={onClose} aria-label={title} onClick={event => { if (event.target === event.currentTarget) event.currentTarget.close() }}>
    <form method="dialog" onSubmit={event => { event.preventDefault(); void go() }}>
      <h2>{title}</h2>
      {children}
      {commands.length > 0 && <div class="same"><small>The same in a terminal:</small>
        {commands.map(c => <div><code>{c}</code><Copy text={c} label={`copy ${c}`}>copy</Copy></div>)}</div>}
      {error && <p class="notice" role="alert">{error}</p>}
      <footer><button type="button" onClick={() => dialog.current!.close()}>Cancel</button>
        <button type="submit" class={grave ? 'grave' : 'main'} disabled={busy}>{verb}</button></footer>
    </form>
  </dialog>
}

/** RemoveExperiments asks whether experiments shall be gone for ever. Those that run stay. */
export function RemoveExperiments({ all, onClose }: { all: Listed[]; onClose: () => void }) {
  const active = (e: Listed) => e.status === 'RUNNING' || e.status === 'STOPPING'
  const over = all.filter(e => !active(e)), stay = all.filter(active)
  const wishes = () => over.map((e): Wish => ({ path: `/experiments/${e.id}/commands`, body: { name: 'remove' }, key: key() }))
  return <Ask title={`Delete ${over.length === 1 ? over[0].name || over[0].id : `${over.length} experiments`}?`} verb={over.length ? 'Delete for ever' : 'Close'} grave
    commands={over.length ? ['starter rm ' + over.map(e => e.id).join(' ')] : []} wishes={wishes} onClose={onClose}>
    {over.length > 0 && <p>Their results on record, the directories of their trials here and on remote machines, and what clusters and services keep of them will be gone. This cannot be taken back.</p>}
    {stay.length > 0 && <p class="why">{stay.map(e => e.name || e.id).join(', ')}: not over, so not deleted. Stop it first.</p>}
  </Ask>
}

type Open = '' | 'pause' | 'resume' | 'stop' | 'early' | 'limits' | 'add'

/** ExperimentActs are the buttons of an experiment. */
export function ExperimentActs({ e }: { e: Experiment }) {
  const [open, setOpen] = useState<Open>('')
  const close = () => setOpen('')
  const wish = (name: string, value?: Json): Wish => ({ path: `/experiments/${e.id}/commands`, body: value === undefined ? { name } : { name, value }, key: key() })
  if (still) return null
  const lives = e.status === 'RUNNING', over = e.status === 'DONE' || e.status === 'STOPPED'
  return <div class="acts" role="group" aria-label="What can be asked of this experiment">
    {lives && !e.paused && <button type="button" onClick={() => setOpen('pause')}>Pause</button>}
    {(e.paused && lives || e.status === 'STOPPED') && <button type="button" class="main" onClick={() => setOpen('resume')}>Resume</button>}
    <button type="button" onClick={() => setOpen('limits')}>Limits</button>
    <button type="button" onClick={() => setOpen('add')}>Add a trial</button>
    {!over && <button type="button" onClick={() => setOpen('early')}>Finish now</button>}
    {!over && <button type="button" class="grave" onClick={() => setOpen('stop')}>Stop</button>}
    {open === 'pause' && <Ask title="Pause?" verb="Pause" commands={[`starter pause ${e.id}`]} wishes={() => [wish('pause')]} onClose={close}>
      <p>Running trials go on to their end; nothing new starts until it is resumed.</p></Ask>}
    {open === 'resume' && <Ask title="Go on?" verb="Resume" commands={[`starter resume ${e.id}`]} wishes={() => [wish('resume')]} onClose={close}>
      <p>Trials that were interrupted run again, with the same parameters.</p></Ask>}
    {open === 'stop' && <Ask title={`Stop ${e.name || e.id}?`} verb="Stop it" grave commands={[`starter stop ${e.id}`]} wishes={() => [wish('stop')]} onClose={close}>
      <p>{e.trials.RUNNING} running {e.trials.RUNNING === 1 ? 'trial is' : 'trials are'} ended now. Resuming it later starts them again from their beginning.</p></Ask>}
    {open === 'early' && <Ask title="Finish now?" verb="Finish it" grave commands={[`starter stop ${e.id} --early-stop`]} wishes={() => [wish('early-stop')]} onClose={close}>
      <p>{e.trials.RUNNING} running {e.trials.RUNNING === 1 ? 'trial ends' : 'trials end'} as stopped early, with what was reported so far, and the experiment is done. This cannot be taken back.</p></Ask>}
    {open === 'limits' && <Limits e={e} wish={wish} onClose={close} />}
    {open === 'add' && <AddTrial experiment={e.id} parameters={e.best?.parameters ?? {}} onClose={close} />}
  </div>
}

function Limits({ e, wish, onClose }: { e: Experiment; wish: (name: string, value: Json) => Wish; onClose: () => void }) {
  const [concurrency, setConcurrency] = useState(String(e.limits.concurrency))
  const [trials, setTrials] = useState(String(e.limits.maxTrials ?? ''))
  const [hours, setHours] = useState(e.limits.maxDuration === null ? '' : String(Number((e.limits.maxDuration / 3600).toFixed(3))))
  const changes: [string, number, string][] = []
  if (concurrency && Number(concurrency) !== e.limits.concurrency) changes.push(['set-concurrency', Number(concurrency), `concurrency ${e.id} ${Number(concurrency)}`])
  if (trials && Number(trials) !== e.limits.maxTrials) changes.push(['set-max-trials', Number(trials), `max-trials ${e.id} ${Number(trials)}`])
  const seconds = Math.round(Number(hours) * 3600)
  if (seconds !== (e.limits.maxDuration ?? 0)) changes.push(['set-max-duration', seconds, `max-duration ${e.id} ${seconds}s`])
  return <Ask title="Limits" verb={changes.length ? 'Change' : 'Close'} commands={changes.map(c => 'starter update ' + c[2])} wishes={() => changes.map(c => wish(c[0], c[1]))} onClose={onClose}>
    <label class="field">Trials at a time<input type="number" min="1" max="100000" required value={concurrency} onInput={event => setConcurrency(event.currentTarget.value)} /></label>
    <label class="field">Trials in all<input type="number" min="1" placeholder="no limit" value={trials} required={e.limits.maxTrials !== null} onInput={event => setTrials(event.currentTarget.value)} /></label>
    <label class="field">Hours in all<input type="number" min="0" step="any" placeholder="no limit" value={hours} onInput={event => setHours(event.currentTarget.value)} /></label>
    <p class="faint">Fewer at a time ends nothing: it counts as trials end. A limit above what was reached goes on from done.</p>
  </Ask>
}

/** AddTrial runs one more trial, with parameters of one's own. */
export function AddTrial({ experiment, parameters, onClose }: { experiment: string; parameters: Json; onClose: () => void }) {
  const [text, setText] = useState(JSON.stringify(parameters, null, 2))
  const [force, setForce] = useState(false)
  let fault = '', value: Json = null
  try {
    value = JSON.parse(text) as Json
    if (value === null || typeof value !== 'object' || Array.isArray(value)) fault = 'parameters are a JSON object, such as {"lr": 0.01}'
  } catch (error) { fault = (error as Error).message }
  const command = fault ? [] : [`starter trials add ${experiment} '${JSON.stringify(value).replaceAll("'", "'\\''")}'${force ? ' --force' : ''}`]
  return <Ask title="Add a trial" verb="Run it" commands={command} onClose={onClose}
    wishes={() => {
      if (fault) throw new Error(fault)
      return [{ path: `/experiments/${experiment}/commands`, body: { name: 'add-trial', value, force }, key: key() }]
    }}>
    <p>It takes a slot as any other trial does; the tuner is not told its result.</p>
    <label class="field">Parameters, as JSON<textarea rows={Math.min(16, text.split('\n').length + 1)} spellcheck={false} value={text} onInput={event => setText(event.currentTarget.value)} aria-invalid={fault !== ''} /></label>
    {fault && <p class="why">{fault}</p>}
    <label class="slide"><input type="checkbox" checked={force} onChange={event => setForce(event.currentTarget.checked)} /> also if they do not lie in the search space</label>
  </Ask>
}

/** TrialActs are the buttons of a trial. */
export function TrialActs({ t }: { t: WholeTrial }) {
  const [open, setOpen] = useState<'' | 'kill' | 'early-stop' | 'clone'>('')
  const close = () => setOpen('')
  const lives = t.state === 'RUNNING' || t.state === 'WAITING'
  if (still) return null
  const wish = (how: string): Wish => ({ path: `/experiments/${t.experiment}/trials/${t.sequence}/end`, body: { how }, key: key() })
  return <div class="acts" role="group" aria-label="What can be asked of this trial">
    <button type="button" onClick={() => setOpen('clone')}>Run again with changes</button>
    {t.state === 'RUNNING' && <button type="button" onClick={() => setOpen('early-stop')}>Stop early</button>}
    {lives && <button type="button" class="grave" onClick={() => setOpen('kill')}>Kill</button>}
    {open === 'clone' && <AddTrial experiment={t.experiment} parameters={t.parameters} onClose={close} />}
    {open === 'early-stop' && <Ask title={`Stop trial ${t.sequence} early?`} verb="Stop it early" grave commands={[`starter kill ${t.experiment} ${t.sequence} --early-stop`]} wishes={() => [wish('early-stop')]} onClose={close}>
      <p>It ends now, and what it has reported counts. This cannot be taken back.</p></Ask>}
    {open === 'kill' && <Ask title={`Kill trial ${t.sequence}?`} verb="Kill it" grave commands={[`starter kill ${t.experiment} ${t.sequence}`]} wishes={() => [wish('kill')]} onClose={close}>
      <p>It ends now, as cancelled, with every process it started. This cannot be taken back.</p></Ask>}
  </div>
}
