package listwatch

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Deferred lists and watches with what is made when that begins: by then it is known which fields are kept.
func Deferred(make func() (*cache.ListWatch, error)) *cache.ListWatch {
	made := sync.OnceValues(make)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			lw, err := made()
			if err != nil {
				return nil, err
			}
			return lw.ListWithContextFunc(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			lw, err := made()
			if err != nil {
				return nil, err
			}
			return lw.WatchFuncWithContext(ctx, o)
		},
	}
}
