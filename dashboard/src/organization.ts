// The organization the pages are about: chosen in the header, or that of the thing one looks at. Remembered per browser.
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { trpc } from './api.ts'
import { createStore, remembered, useStore } from './stores.ts'

const kept = remembered('berth-organization')
const chosen = createStore<number>(Number(kept.get() ?? 0))

export function chooseOrganization(id: number): void {
  kept.set(String(id))
  chosen.set(id)
}

export const useMe = () => useQuery({ ...trpc.me.queryOptions(), staleTime: 30_000 })

export type Me = NonNullable<ReturnType<typeof useMe>['data']>
export type Membership = Me['organizations'][number]

/** Undefined: not loaded, or of no organization. */
export function useOrganization(): Membership | undefined {
  const id = useStore(chosen)
  const { data: me } = useMe()
  return me?.organizations.find((o) => o.id === id) ?? me?.organizations[0]
}

/** A page about a thing of another organization moves there. */
export function useOrganizationOf(id: number | undefined): void {
  useEffect(() => {
    if (id !== undefined && id !== chosen.get()) chooseOrganization(id)
  }, [id])
}

/** What the server says this person may do here; buttons follow it. */
export function usePermission(permission: Membership['permissions'][number]): boolean {
  return useOrganization()?.permissions.includes(permission) ?? false
}
