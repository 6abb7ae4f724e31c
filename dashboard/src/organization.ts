// The current organization: the one chosen in the header, or the owner of the open page. Remembered per browser.
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

/** Undefined while loading, or for a user without an organization. */
export function useOrganization(): Membership | undefined {
  const id = useStore(chosen)
  const { data: me } = useMe()
  return me?.organizations.find((o) => o.id === id) ?? me?.organizations[0]
}

/** Switches to the organization that owns what the page shows. */
export function useOrganizationOf(id: number | undefined): void {
  useEffect(() => {
    if (id !== undefined && id !== chosen.get()) chooseOrganization(id)
  }, [id])
}

/** Whether the server grants this user a permission here; buttons follow it. */
export function usePermission(permission: Membership['permissions'][number]): boolean {
  return useOrganization()?.permissions.includes(permission) ?? false
}
