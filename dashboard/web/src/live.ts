// How pages stay true without being loaded again: a stream tells that something has
// changed, and whatever is on show is then asked for again.
import { useEffect, useRef, useState } from 'preact/hooks'
import { read, Refused } from './api'
import { still } from './still'

/** Link is how a page stands with its host; a still one has none. */
export type Link = 'connecting' | 'live' | 'gone' | 'closed' | 'still'

/** Live is how it stands with the stream; version rises whenever something is different. */
export interface Live { link: Link; version: number }

const pace = 500 // milliseconds between two looks at what changes all the time
const again = 1000 // before another try to reach the host
const patience = 25_000 // the host speaks every ten seconds
const slowest = 15_000 // an answer that took long is asked for again after that, if not before
const hidden = 5000 // how often a page that nobody sees looks, for its title

let program = '' // the host's version that the pages came from

/** useLive listens to a stream of the API for as long as the page is seen. */
export function useLive(path: string): Live {
  const [live, set] = useState<Live>({ link: still ? 'still' : 'connecting', version: 0 })
  useEffect(() => {
    if (still) return
    let source: EventSource | undefined
    let retry = 0, beat = 0, due = 0, poll = 0
    const bump = () => set(now => ({ link: now.link, version: now.version + 1 }))
    const changed = () => {
      if (!due) due = window.setTimeout(() => { due = 0; bump() }, pace)
    }
    const lost = () => {
      source?.close()
      window.clearTimeout(beat)
      window.clearTimeout(retry)
      retry = window.setTimeout(open, again)
      set(now => now.link === 'closed' ? now : { ...now, link: 'gone' })
      fetch('/api/v1/experiments?limit=1').then(answer => {
        if (answer.status === 401) set(now => ({ ...now, link: 'closed' }))
      }, () => {})
    }
    const heard = () => {
      window.clearTimeout(beat)
      beat = window.setTimeout(lost, patience)
      set(now => now.link === 'live' ? now : { link: 'live', version: now.version + 1 })
    }
    const open = () => {
      source?.close()
      source = new EventSource('/api/v1' + path)
      source.onerror = lost
      source.addEventListener('alive', message => {
        const { version } = JSON.parse((message as MessageEvent<string>).data) as { version: string }
        if (program && program !== version) location.reload() // the pages are another program's
        program = version
        heard()
      })
      source.addEventListener('changed', () => { heard(); changed() })
    }
    const close = () => {
      source?.close()
      window.clearTimeout(beat)
      window.clearTimeout(retry)
    }
    // A browser opens six connections to one host: pages that nobody sees hold none.
    const seen = () => {
      window.clearInterval(poll)
      close()
      if (document.hidden) {
        poll = window.setInterval(bump, hidden)
      } else {
        open()
      }
    }
    document.addEventListener('visibilitychange', seen)
    seen()
    return () => {
      document.removeEventListener('visibilitychange', seen)
      window.clearInterval(poll)
      window.clearTimeout(due)
      close()
    }
  }, [path])
  return live
}

/** Resource is an answer as far as it is there; what was there before stays until then. */
export interface Resource<T> { data?: T; error?: string; missing?: boolean }

/** useResource asks for a path again whenever version rises, and no more often than ten
 * times as long as the last answer took. */
export function useResource<T>(path: string | null, version: number): Resource<T> {
  const [state, set] = useState<Resource<T> & { path: string | null }>({ path: null })
  const last = useRef({ path: '' as string | null, end: 0, took: 0 })
  useEffect(() => {
    if (path === null) return
    const abort = new AbortController()
    const fresh = last.current.path !== path
    const wait = fresh ? 0 : Math.max(0, Math.min(last.current.end + 9 * last.current.took - performance.now(), slowest))
    const timer = window.setTimeout(async () => {
      const start = performance.now()
      try {
        const data = await read<T>(path, abort.signal)
        set({ data, path })
      } catch (error) {
        if (abort.signal.aborted) return
        if (error instanceof Refused) set(now => ({ data: now.path === path ? now.data : undefined, error: error.message, missing: error.status === 404, path }))
      }
      last.current = { path, end: performance.now(), took: performance.now() - start }
    }, wait)
    return () => { window.clearTimeout(timer); abort.abort() }
  }, [path, version])
  return state.path === path ? state : {}
}
