"""The architectures of the benchmark, by the names that model libraries give them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Library(NamedTuple):
    """A library on PyPI. networks: size -> names. A size is the side of a square, or height x width x channels."""

    name: str
    package: str
    license: str
    networks: dict[str, str]


class Architecture(NamedTuple):
    """A network at its real size. network: its name in the library."""

    library: str
    network: str
    height: int
    width: int
    channels: int

    @property
    def name(self) -> str:
        return f"{self.library}_{self.network}"

    @property
    def size(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


LIBRARIES: Final = (
    Library(
        "torchvision",
        "torchvision",
        "BSD-3-Clause",
        {
            "224": """
                alexnet vgg11_bn vgg16 squeezenet1_0 squeezenet1_1 googlenet resnet18 resnet34 resnet50 wide_resnet50_2
                resnext50_32x4d densenet121 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet0_5 mnasnet1_0
                shufflenet_v2_x0_5 shufflenet_v2_x1_0 efficientnet_b0 convnext_tiny regnet_x_400mf regnet_y_400mf
                maxvit_t swin_t swin_v2_t vit_b_32
            """,
            "299": "inception_v3",
            "300": "ssd300_vgg16",
            "320": "ssdlite320_mobilenet_v3_large",
            "384": "efficientnet_v2_s",
            "512": "retinanet_resnet50_fpn fcos_resnet50_fpn",
            "520": "fcn_resnet50 deeplabv3_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large",
        },
    ),
    Library(
        "timm",
        "timm",
        "Apache-2.0",
        {
            "224": """
                resnet26d resnet50d resnetv2_50 resnest14d res2net50_26w_4s res2next50 skresnet18 seresnet50 legacy_seresnet18
                ecaresnetlight resnetblur50 resnet50_gn
                dla34 dla46x_c hrnet_w18_small vovnet39a ese_vovnet19b_dw dpn68 selecsls42
                densenetblur121d rdnet_tiny
                repvgg_a0 gernet_s mobileone_s0 repghostnet_050 repvit_m1 ghostnet_100 ghostnetv2_100 ghostnetv3_100
                mobilenetv1_100 mobilenetv3_rw mobilenetv4_conv_small mixnet_s fbnetc_100 spnasnet_100 lcnet_050
                tinynet_a hardcorenas_a semnasnet_100 rexnet_100 tf_efficientnet_lite0 efficientnet_es tf_efficientnetv2_b0
                regnetx_002 regnety_002 regnetz_b16 hgnet_tiny hgnetv2_b0 tresnet_m nf_regnet_b0
                dm_nfnet_f0 eca_nfnet_l0 convnext_atto convnext_tiny_hnf convnextv2_atto inception_next_atto convmixer_768_32
                fasternet_t0 starnet_s1 mambaout_femto focalnet_tiny_srf
                poolformer_s12 poolformerv2_s12 convformer_s18 caformer_s18 efficientformer_l1 efficientformerv2_s0
                efficientvit_b0 efficientvit_m0 swiftformer_xs shvit_s1 levit_128s levit_conv_128s
                mixer_s32_224 resmlp_12_224 gmlp_ti16_224
                vit_tiny_patch16_224 deit_tiny_patch16_224 deit3_small_patch16_224 cait_xxs24_224 pit_ti_224 pvt_v2_b0 twins_svt_small
                swin_tiny_patch4_window7_224 tiny_vit_5m_224 visformer_tiny xcit_nano_12_p16_224 convit_tiny coat_lite_tiny
                mvitv2_tiny nest_tiny davit_tiny coatnet_nano_rw_224
            """,
            "240": "crossvit_9_240 efficientnet_b1",
            "256": """
                mobilevit_xxs mobilevitv2_050 botnet26t_256 halonet26t lambda_resnet26t maxxvit_rmlp_nano_rw_256
                ecaresnet50t gcresnet33ts bat_resnext26ts cspresnet50 cs3darknet_s darknetaa53 mobilenetv4_hybrid_medium nf_resnet50
                edgenext_xx_small fastvit_t8
            """,
            "299": "xception41 inception_v3 inception_v4 inception_resnet_v2 legacy_xception",
        },
    ),
    Library(
        "segmentation",
        "segmentation-models-pytorch",
        "MIT",
        {
            "256": """
                unet-resnet18 unet-resnet18-scse unet-resnet18-instancenorm unet-timm-mobilenetv3_large_100 unetplusplus-resnet18 manet-resnet18 linknet-resnet18
                fpn-resnet18 pan-resnet18 deeplabv3-resnet18 deeplabv3plus-mobilenet_v2 upernet-resnet18
                segformer-mit_b0 unet-efficientnet-b0
            """,
            "288": "pspnet-resnet18",
        },
    ),
    Library(
        "pytorchcv",
        "pytorchcv",
        "MIT",
        {
            "224": """
                zfnet bninception preresnet18 diracnet18v2 bam_resnet18 cbam_resnet18 ibn_resnet50 sknet50 scnet50 airnet50_1x64d_r2
                peleenet hardnet39ds condensenet74_c4_g4 sparsenet121 shufflenet_g3_w1 menet108_8x1_g3 igcv3_w1
                squeezeresnet_v1_1 sqnxt23_w1 darknet_tiny darknet19 dicenet_w1 espnetv2_w1 resattnet56
                mobilenetb_w1 proxylessnas_mobile octresnet10_ad2 diaresnet18
            """,
            "256x192x3": "simplepose_resnet18_coco simplepose_mobile_mobilenet_w1_coco",
            "368": "lwopenpose2d_mobilenet_cmupan_coco",
            "480": "bisenet_resnet18_celebamaskhq pspnet_resnetd50b_voc",
            "512": "centernet_resnet18_coco lffd20x5s320v2_widerface",
            "256x512x3": """
                fastscnn_cityscapes enet_cityscapes erfnet_cityscapes lednet_cityscapes dabnet_cityscapes cgnet_cityscapes
                sinet_cityscapes ctxnet_cityscapes fpenet_cityscapes segnet_cityscapes
            """,
        },
    ),
    Library(
        "ultralytics",
        "ultralytics",
        "AGPL-3.0",
        {
            "224": "yolov8n-cls yolo11n-cls",
            "640": """
                yolov3-tiny yolov5n yolov6n yolov8n yolov8n-seg yolov8n-pose yolov8n-ghost yolov9t yolov10n yolo11n yolo11n-seg yolo11n-obb
                yolo12n yolo26n
            """,
        },
    ),
    Library(
        "effdet",
        "effdet",
        "Apache-2.0",
        {"320": "tf_efficientdet_lite0", "512": "efficientdet_d0"},
    ),
    Library(
        "doctr",
        "python-doctr",
        "Apache-2.0",
        {
            "32x128x3": "crnn_vgg16_bn crnn_mobilenet_v3_small vitstr_small parseq viptr_tiny",
            "512": "db_mobilenet_v3_large linknet_resnet18 fast_tiny",
        },
    ),
    Library(
        "transformers",
        "transformers",
        "Apache-2.0",
        {
            "192": "swin2sr",
            "224": "mobilenet_v1 resnet regnet levit cvt mobilevit poolformer dinov2",
            "512": "segformer detr yolos upernet glpn",
        },
    ),
)


def _sides(size: str) -> tuple[int, int, int]:
    height, *others = (int(part) for part in size.split("x"))
    width, channels = others or (height, 3)
    return height, width, channels


ARCHITECTURES: Final = {
    architecture.name: architecture
    for library in LIBRARIES
    for size, names in library.networks.items()
    for architecture in (Architecture(library.name, name, *_sides(size)) for name in names.split())
}
