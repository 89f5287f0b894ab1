// Bootimages acts whenever another release of CoreOS becomes current: it watches the
// ConfigMap that the server keeps in step. docs/guides/streams.md shows it.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/coreos/stream-metadata-go/stream"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	act := func(object any) {
		images, data := stream.Stream{}, object.(*corev1.ConfigMap).Data
		if err := json.Unmarshal([]byte(data["stream"]), &images); err != nil {
			log.Fatal(err)
		}
		ami, err := images.GetAMI("x86_64", "us-east-1")
		fmt.Println(data["releaseVersion"], ami, err)
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient(), "configmaps",
			"openshift-machine-config-operator", fields.OneTermEqualSelector("metadata.name", "coreos-bootimages")),
		ObjectType: &corev1.ConfigMap{},
		Handler:    cache.ResourceEventHandlerFuncs{AddFunc: act, UpdateFunc: func(_, object any) { act(object) }},
	})
	informer.Run(nil)
}
