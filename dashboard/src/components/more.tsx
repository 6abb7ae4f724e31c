// Paged lists: the newest page is live, older ones are fetched on demand and shown below it.
import { type ReactNode, useState } from 'react'
import { Button } from './button.tsx'
import { Loaded } from './states.tsx'

interface Paged<T> {
  items: readonly T[]
  next: number | null
}

interface MoreProps<T> {
  what: string
  query: { data: Paged<T> | undefined; error: unknown; isError: boolean; refetch(): unknown }
  older(from: number): Promise<Paged<T>>
  keyOf(item: T): number
  empty: ReactNode
  children(items: readonly T[]): ReactNode
}

export function More<T>({ what, query, older, keyOf, empty, children }: MoreProps<T>) {
  const [rest, setRest] = useState<Paged<T>>()
  const [isBusy, setBusy] = useState(false)
  return (
    <Loaded query={query} what={what}>
      {(first) => {
        const seen = new Set(first.items.map(keyOf))
        const items = [...first.items, ...(rest?.items.filter((i) => !seen.has(keyOf(i))) ?? [])]
        const next = rest ? rest.next : first.next
        const load = async (from: number) => {
          setBusy(true)
          try {
            const page = await older(from)
            setRest({ items: [...(rest?.items ?? []), ...page.items], next: page.next })
          } finally {
            setBusy(false)
          }
        }
        if (items.length === 0) return empty
        return (
          <>
            {children(items)}
            {next !== null && (
              <div className="row">
                <Button busy={isBusy} onClick={() => void load(next)}>
                  Load more
                </Button>
              </div>
            )}
          </>
        )
      }}
    </Loaded>
  )
}
