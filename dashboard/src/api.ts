// The dashboard's client of the control plane: queries and changes over HTTP, events over one socket. State comes from
// HTTP; the socket only makes it fast. The cache changes only after the server has answered.
import type { AppRouter } from '@berth/control-plane/router'
import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { createTRPCClient, httpBatchLink, splitLink, TRPCClientError, wsLink } from '@trpc/client'
import { socket } from './live/connection.ts'
import { optionsOf } from './query-options.ts'
import { endSession } from './session.ts'

/** A refusal or a fault. */
export interface Problem {
  message: string
  code: string | undefined
  status: number | undefined
  requestId: string | undefined
  /** Messages for single fields. */
  fields: { field: string; message: string }[]
  details: Record<string, unknown>
}

const OFFLINE = 'The control plane cannot be reached. Check your connection and try again.'

/** A refusal that this browser made itself, in words for its user. */
export class Refused extends Error {}

export function problemOf(error: unknown): Problem {
  const isOurs = error instanceof TRPCClientError
  const data = (isOurs ? (error.data as Record<string, unknown> | undefined) : undefined) ?? {}
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined)
  const message = error instanceof Error ? error.message : 'Something went wrong.'
  const isKnown = error instanceof Refused || (isOurs && Object.keys(data).length > 0)
  return {
    message: isKnown ? message : OFFLINE,
    code: text(data.code),
    status: typeof data.status === 'number' ? data.status : undefined,
    requestId: text(data.request_id),
    fields: Array.isArray(data.errors) ? (data.errors as Problem['fields']) : [],
    details: data,
  }
}

/** Checks every refusal for the end of the session, which concerns all pages. */
const watchForEnd = (error: unknown): void => {
  const { status, code } = problemOf(error)
  // a wrong password or code is also 401, and ends nothing
  if (status === 401 && code?.startsWith('token_')) endSession()
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: watchForEnd }),
  mutationCache: new MutationCache({ onError: watchForEnd }),
  defaultOptions: {
    queries: {
      staleTime: 1_000, // two parts of one page share an answer; everything older is refetched
      retry: (failures, error) => (problemOf(error).status ?? 503) >= 502 && failures < 2,
      retryDelay: 400,
      // a browser's word about its connection is often wrong: a request shows it, and the page says so
      networkMode: 'always',
      refetchOnReconnect: true,
    },
    mutations: { retry: false },
  },
})

const LIST_URL = 2_000

/** Calls with an organization go alone, because the header applies to a whole request. */
export const api = createTRPCClient<AppRouter>({
  links: [
    splitLink({
      condition: (op) => op.type === 'subscription',
      true: wsLink({ client: socket }),
      false: splitLink({
        condition: (op) => op.context.organization !== undefined,
        true: httpBatchLink({
          url: '/trpc',
          maxItems: 1,
          headers: ({ opList: [op] }) => ({
            'x-service-organization': String(op.context.organization),
          }),
        }),
        false: httpBatchLink({ url: '/trpc', maxURLLength: LIST_URL, maxItems: 20 }),
      }),
    }),
  ],
})

export const trpc = optionsOf(api)

/** Waits for a change to succeed, then refetches what the page shows. */
export async function change<T>(work: Promise<T>): Promise<T> {
  try {
    const made = await work
    await queryClient.invalidateQueries()
    return made
  } catch (error) {
    watchForEnd(error)
    throw error
  }
}
