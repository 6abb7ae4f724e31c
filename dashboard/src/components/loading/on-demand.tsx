// Scripts that are loaded when they are needed. Without a connection the page stays as it is: a sentence takes the place
// of what is missing, and the script is asked for again when the browser is back online.
import { useQuery } from '@tanstack/react-query'
import { type ComponentType, useEffect, useState } from 'react'
import { Loaded, Note } from '../states.tsx'

let styling: Promise<unknown> | undefined

/** The loader asks for a style sheet once; here one that did not arrive is asked for again, and waited for. */
function restyle(): Promise<unknown> {
  const links = [...document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"]')]
  const lost = links.filter(isLost)
  styling ??= Promise.all(lost.map(replace)).finally(() => {
    styling = undefined
  })
  return styling
}

/** The rules of a style sheet that did not arrive cannot be read. */
function isLost(link: HTMLLinkElement): boolean {
  try {
    return link.sheet === null || link.sheet.cssRules.length === 0
  } catch {
    return true
  }
}

const replace = (link: HTMLLinkElement): Promise<unknown> =>
  new Promise((resolve) => {
    const again = link.cloneNode() as HTMLLinkElement
    again.addEventListener('load', resolve)
    again.addEventListener('error', resolve)
    link.replaceWith(again)
  })

/** Like React's `lazy`, which remembers a failure for ever. `isQuiet`: nothing takes its place. */
export function onDemand<P extends object>(
  load: () => Promise<{ default: ComponentType<P> }>,
  isQuiet = false,
): ComponentType<P> {
  let found: ComponentType<P> | undefined
  // biome-ignore lint/correctness/noComponentHookFactories: made once, when its module is loaded
  return function OnDemand(props: P) {
    const [Found, setFound] = useState(() => found)
    const [isLost, setLost] = useState(false)
    useEffect(() => {
      if (found) return
      let isHere = true
      const ask = () =>
        void load().then(
          (loaded) => {
            found = loaded.default
            if (isHere) setFound(() => found)
          },
          () => isHere && setLost(true),
        )
      const askAgain = () => void restyle().then(ask)
      ask()
      addEventListener('online', askAgain)
      return () => {
        isHere = false
        removeEventListener('online', askAgain)
      }
    }, [])
    if (Found) return <Found {...props} />
    if (!isLost || isQuiet) return null
    return (
      <div role="alert">
        <Note kind="bad">This could not be loaded. Check your connection.</Note>
      </div>
    )
  }
}

type PageModule = Record<string, ComponentType>
const RELOADED = 'berth-reloaded-for'

/** A script of an older version is missing after an update: a new start of the page finds the new one. */
async function reloadIfUpdated(): Promise<void> {
  const answer = await fetch('/', { cache: 'no-store' }).catch(() => undefined)
  const version = answer?.headers.get('etag')
  if (!answer?.ok || !version || sessionStorage.getItem(RELOADED) === version) return
  sessionStorage.setItem(RELOADED, version)
  location.reload()
  await new Promise(() => {})
}

/** The module of a page; if its script does not arrive, a page that says so and tries again. */
export async function loadPage(load: () => Promise<object>, name: string): Promise<PageModule> {
  try {
    return (await load()) as PageModule
  } catch {
    await reloadIfUpdated()
    return { [name]: standIn(load, name) }
  }
}

function standIn(load: () => Promise<object>, name: string): ComponentType {
  // biome-ignore lint/correctness/noComponentHookFactories: made once, in place of the page
  return function StandIn() {
    const query = useQuery({
      queryKey: ['page', name],
      queryFn: async () => {
        await restyle()
        return (await load()) as PageModule
      },
      retry: false,
      staleTime: Number.POSITIVE_INFINITY,
    })
    return (
      <Loaded query={query} what="The page">
        {({ [name]: Found }) => Found && <Found />}
      </Loaded>
    )
  }
}
