// Options for react-query of every procedure: trpc.task.get.queryOptions({ task_id: 1 }). The names and types are those of
// @trpc/tanstack-react-query; its code is left out, because a first visit would load five times as much of it.
import type { AppRouter } from '@berth/control-plane/router'
import { getUntypedClient, type TRPCClient } from '@trpc/client'
import type { TRPCOptionsProxy } from '@trpc/tanstack-react-query'

export function optionsOf(api: TRPCClient<AppRouter>): TRPCOptionsProxy<AppRouter> {
  const client = getUntypedClient(api)
  const at = (path: readonly string[]): unknown => {
    const name = path.join('.')
    const queryKey = (input?: unknown) => [
      path,
      input === undefined ? { type: 'query' } : { input, type: 'query' },
    ]
    const methods: Record<string, unknown> = {
      queryKey,
      queryFilter: (input?: unknown) => ({ queryKey: queryKey(input) }),
      queryOptions: (input?: unknown) => ({
        queryKey: queryKey(input),
        queryFn: () => client.query(name, input),
      }),
      mutationOptions: () => ({
        mutationKey: [path],
        mutationFn: (input: unknown) => client.mutation(name, input),
      }),
    }
    return new Proxy(methods, { get: (own, word: string) => own[word] ?? at([...path, word]) })
  }
  return at([]) as TRPCOptionsProxy<AppRouter>
}
