// All experiments of the state directory.
import { useEffect, useState } from 'preact/hooks'
import type { ExperimentPage, Listed } from './api'
import { ago, number, span } from './format'
import { useLive, useResource } from './live'
import type { Shell } from './main'
import { RemoveExperiments } from './acts'
import { comparing } from './compare'
import { Pill, Progress, Spark, Tags, useNow } from './parts'
import { leaf } from './still'
import { Go, go } from './router'

export function Experiments({ shell }: { shell: Shell }) {
  const live = useLive('/changes')
  const [text, setText] = useState('')
  const { data, error } = useResource<ExperimentPage>(`/experiments?limit=200&text=${encodeURIComponent(text)}`, live.version)
  const [chosen, choose] = useState<string[]>([])
  const [removing, setRemoving] = useState(false)
  const now = useNow()
  const picked = data?.experiments.filter(e => chosen.includes(e.id)) ?? []
  const running = data?.experiments.filter(e => e.status === 'RUNNING').length ?? 0
  useEffect(() => shell.tell({ link: live.link, title: running ? `● ${running} running` : 'Experiments' }), [live.link, running])
  return <>
    <div class="head">
      <h1>Experiments</h1>
      <input type="search" placeholder="Search by name, id or tag" aria-label="Search experiments" value={text} onInput={event => setText(event.currentTarget.value)} />
    </div>
    {error && <p class="notice">{error}</p>}
    {data && data.total === 0 && <Nothing searched={text !== ''} />}
    {picked.length > 0 && <div class="picked" role="group" aria-label="What can be done with those chosen">
      <b>{picked.length} chosen</b>
      {picked.length > 1 && <button type="button" class="main" onClick={() => go(comparing(picked.map(e => e.id)))}>Compare</button>}
      <button type="button" class="grave" onClick={() => setRemoving(true)}>Delete</button>
      <button type="button" class="quiet" onClick={() => choose([])}>Choose none</button>
    </div>}
    {removing && <RemoveExperiments all={picked} onClose={() => { setRemoving(false); choose([]) }} />}
    <ul class="experiments">
      {data?.experiments.map(e => <Row key={e.id} e={e} now={now} chosen={chosen.includes(e.id)}
        onChoose={on => choose(on ? [...chosen, e.id] : chosen.filter(id => id !== e.id))} />)}
    </ul>
    {data && data.total > data.experiments.length && <p class="faint">{data.experiments.length} of {data.total}: search for the others</p>}
  </>
}

function Nothing({ searched }: { searched: boolean }) {
  if (searched) return <div class="empty"><p>No experiment is called so.</p></div>
  return <div class="empty">
    <img src={leaf} alt="" width="72" height="72" />
    <h2>Nothing grows here yet</h2>
    <p>These two make a small experiment and start it; it appears here at once.</p>
    <pre>starter init{'\n'}starter run experiment.yml</pre>
  </div>
}

function Row({ e, now, chosen, onChoose }: { e: Listed; now: number; chosen: boolean; onChoose: (on: boolean) => void }) {
  const settled = e.trials.SUCCEEDED + e.trials.FAILED + e.trials.EARLY_STOPPED + e.trials.USER_CANCELED + e.trials.SYS_CANCELED
  const of = e.limits.maxTrials ?? e.asked
  return <li class="card experiment" onClick={event => { if (!(event.target as Element).closest('a, label')) go('/e/' + e.id) }}>
    <label class="pick"><input type="checkbox" checked={chosen} aria-label={`choose ${e.name || e.id} ${e.id}`} onChange={event => onChoose(event.currentTarget.checked)} /></label>
    <div class="who">
      <Go to={'/e/' + e.id}>{e.name || e.id}</Go>
      <small><code>{e.id}</code> · {[...new Set(e.platforms)].join(', ')} · {ago(e.created, now)}</small>
      <Tags of={e.tags} />
    </div>
    <div class="how"><Pill state={e.status} paused={e.paused} />
      {e.reason.text && <small class="why">{e.reason.text.split('\n')[0]}</small>}</div>
    <div class="far">
      <Progress trials={e.trials} of={of} />
      <small>{settled}{e.limits.maxTrials ? ` of ${e.limits.maxTrials}` : ''} trials
        {e.trials.RUNNING > 0 && ` · ${e.trials.RUNNING} running`}{e.trials.WAITING > 0 && ` · ${e.trials.WAITING} waiting`}
        {e.remaining !== null && ` · about ${span(e.remaining)} left`}</small>
    </div>
    <Spark values={e.course} label={`best so far of ${e.name || e.id}`} />
    <div class="best"><b>{number(e.best?.metric)}</b><small>{e.best ? <>best, by trial <Go to={`/e/${e.id}/t/${e.best.sequence}`}>{e.best.sequence}</Go></> : 'no result yet'}</small></div>
  </li>
}
