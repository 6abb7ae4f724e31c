// The id in the address. An id that is not a number becomes 0, which no row has.
import { useParams } from '@tanstack/react-router'

export function useId(): number {
  const { id } = useParams({ strict: false }) as { id?: string }
  return /^[1-9]\d{0,9}$/.test(id ?? '') ? Number(id) : 0
}
